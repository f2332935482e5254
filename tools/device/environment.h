// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "tools/device/device.h"

namespace ckpt::tools {

// What makes a program use our libraries instead of the drivers.
struct ProgramEnvironment {
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> without;
  bool software_cuda = false;  // CUDA is the software device, because this machine has no GPU
};

Result<ProgramEnvironment> program_environment(const DeviceChoice &choice);

}  // namespace ckpt::tools
