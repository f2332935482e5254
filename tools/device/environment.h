// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "tools/device/device.h"

namespace ckpt::tools {

// Changes to a program's environment that make it use our libraries instead of the drivers.
struct ProgramEnvironment {
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> without;
  // For variables in `set` that are lists of paths: the part that is put before the variable's own
  // value.
  std::vector<std::pair<std::string, std::string>> front;
  bool software_cuda = false;  // the machine has no GPU, so CUDA runs on the software device
  std::string auditor;         // for programs that open CUDA's driver by its path; empty: none

  std::string toucher;  // for programs with managed memory that is kept; empty: none

  // Puts `value` in front of a list of paths.
  void put_in_front(const std::string &name, const std::string &value);
  // Behind all others.
  void put_behind(const std::string &name, const std::string &value);
};

Result<ProgramEnvironment> program_environment(const DeviceChoice &choice);

}  // namespace ckpt::tools
