// SPDX-License-Identifier: Apache-2.0
//
// ckpt-restore --all: restores, for example at boot, the programs whose images are in a folder.
//
// Of each program the newest image counts. A program is told by its first session and its PID,
// which its images keep through any number of restores. It is skipped if it has ended by itself
// since (end_mark.h), or runs already, so that the command may be repeated. If its newest image
// turns out to be damaged, the next older one is taken.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace ckpt::tools {

struct RestoreAllOptions {
  std::string folder;
  std::string key_file;
  std::vector<std::string> options;  // for every ckpt-restore
};

// Prints a line for each image. Returns the exit code: 0 if every program that should run does.
Result<int> restore_all(const RestoreAllOptions &options);

}  // namespace ckpt::tools
