// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace ckpt::tools {

// Runs one of Slurm's commands, and returns what it prints.
Result<std::string> slurm_command(std::vector<std::string> argv);

}  // namespace ckpt::tools
