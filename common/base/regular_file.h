// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/unique_fd.h"

namespace ckpt {

// A regular file, for reading; none: there is no such file, or it is of another kind. Opening a
// device or FIFO already has an effect (a watchdog starts, a writer is released), so the kind is
// checked before anything is opened.
UniqueFd open_regular(const std::string &path);

}  // namespace ckpt
