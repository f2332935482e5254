// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace ckpt::tools {

// The folders below `top`, and `top` itself, that are no images, in the order of their names. Links
// are not followed. Folders below that cannot be read are left out, with a warning.
Result<std::vector<std::string>> folders_of_tree(const std::string &top);

}  // namespace ckpt::tools
