// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/result.h"

namespace ckpt {

// A whole file. Also one of /proc or /sys, which says a size of 0, and whose process may end
// between open(2) and read(2): that is the error ESRCH, for which a stream of the C++ library would
// throw.
Result<std::string> file_text(const std::string &path);
// The rest of an open file.
Result<std::string> text_behind(int file);

// Writes a file of /proc, /sys or a control group, by one write(2), as these files need it.
Result<> write_file_text(const std::string &path, std::string_view text);

}  // namespace ckpt
