// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ckpt::tools {

// What --version prints: the tool, its version, the commit that it was built from, and the version
// of the images that it writes.
std::string version_text(const std::string &tool);

}  // namespace ckpt::tools
