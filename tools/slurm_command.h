// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace ckpt::tools {

using Environment = std::vector<std::pair<std::string, std::string>>;

// Runs one of Slurm's commands, and returns what it prints. `environment` is added to ours, of
// which what would change the command's own format and choice is removed.
Result<std::string> slurm_command(std::vector<std::string> argv, Environment environment = {});

}  // namespace ckpt::tools
