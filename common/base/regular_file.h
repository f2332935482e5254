// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/unique_fd.h"

namespace ckpt {

// A regular file, for reading; none: there is no such file, or it is of another kind. To open a
// device or FIFO does something to it already (a watchdog starts, a writer goes on), so nothing is
// opened before its kind is known.
UniqueFd open_regular(const std::string &path);

}  // namespace ckpt
