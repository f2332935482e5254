// SPDX-License-Identifier: Apache-2.0
#include "tools/version.h"

#include <fmt/format.h>

#include "ckpt_commit.h"
#include "ckpt_config.h"
#include "storage/format/format.h"

namespace ckpt::tools {

std::string version_text(const std::string &tool) {
  return fmt::format("{} {}\ncommit {}\nimages of version {}; older ones can be read", tool,
                     CKPT_VERSION, CKPT_COMMIT, storage::kFormatVersion);
}

}  // namespace ckpt::tools
