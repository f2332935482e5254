// SPDX-License-Identifier: Apache-2.0
//
// The environment of a proxy. The real driver must find the same variables as in the program
// itself: a job script may set POCL_DEVICES, CUDA_VISIBLE_DEVICES or a folder for the driver's
// cache long after ckpt-run has started. So a proxy gets the environment that the program had when
// it first called the API, with three exceptions, for which the keeper's own value counts:
//
//   - the variables that ckpt-run itself has set or removed, which lead programs to ckpt's
//   libraries;
//   - the dynamic loader's variables (LD_PRELOAD, LD_AUDIT …) except LD_LIBRARY_PATH, and OpenCL
//   layers: the libraries that they load are meant for the program, which has loaded them already;
//   - CKPT_…, which the keeper passes on.
//
// A restored copy sends no environment, because its environment comes from another machine or
// another job: the environment of ckpt-restore says which devices the copy may use.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "tools/device/environment.h"

namespace ckpt::tools {

// Changes of the keeper's own environment, for Spawn.
struct EnvironmentChanges {
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> without;
};

// The entries "NAME=value" of an environment that a program has sent as a file.
Result<std::vector<std::string>> read_environment(int file);

// `program` is what ckpt-run has changed for the program.
EnvironmentChanges proxy_environment(const std::vector<std::string> &entries,
                                     const ProgramEnvironment &program);

}  // namespace ckpt::tools
