// SPDX-License-Identifier: Apache-2.0
//
// Where a dump writes its image.
#pragma once

#include <string>

#include "tools/session/target.h"

namespace ckpt::tools {

// The absolute path of `given`; of ckpt-NAME-PID.img in the working folder if that is empty. A pipe
// (storage::kPipeImage) stays as it is.
std::string image_path(const std::string &given, const Target &target);

}  // namespace ckpt::tools
