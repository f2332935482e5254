// SPDX-License-Identifier: Apache-2.0
//
// A folder of images continues the program that was started with it, whatever program is named on
// the command line of the next start. So its first start notes the command, and a later one that
// names another is refused.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace ckpt::tools {

// `file`: where the command is noted. `command`: the program and its arguments.
Result<> note_command(const std::string &file, const std::vector<std::string> &command);

// `folder`, `option`: of the images, as the user has named them. Images of earlier versions have no
// such file: then `image` is compared as far as possible, and a difference is a warning.
struct Continued {
  std::string folder, option, file, image;
};
Result<> check_same_command(const Continued &what, const std::vector<std::string> &command);

}  // namespace ckpt::tools
