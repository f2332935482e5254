// SPDX-License-Identifier: Apache-2.0
//
// The environment of a proxy. The real driver must find what it would find in the program itself:
// POCL_DEVICES, CUDA_VISIBLE_DEVICES or a folder for its cache may be set by a job script long
// after ckpt-run has started. So a proxy gets the environment that the program had when it first
// called the API, with three exceptions, for which the keeper's own value counts:
//
//   - what ckpt-run itself has set or removed, which leads programs to ckpt's libraries;
//   - the dynamic loader's variables (LD_PRELOAD, LD_AUDIT …) but LD_LIBRARY_PATH, and layers of
//     OpenCL: what they load is meant for the program, and is there already;
//   - CKPT_…, which the keeper passes on.
//
// A restored copy sends no environment: it is of another machine or of another job, and
// ckpt-restore's says which devices the copy may have.
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
