// SPDX-License-Identifier: Apache-2.0
//
// CRIU opens the files of a restored program again by their names, and makes its unlinked files and
// its UNIX sockets anew, with the rights of the program's user. A program may have files open that
// this user may not open (any more): it made one that is read-only, the mode was changed while it
// ran, or root opened it before the program became the user's. This is a row of the table in
// restorable.h.
#pragma once

#include "tools/manifest/restorable.h"

namespace ckpt::tools {

void check_open_rights(const RestorableImage &image, Reasons &reasons);

}  // namespace ckpt::tools
