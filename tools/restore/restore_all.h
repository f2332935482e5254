// SPDX-License-Identifier: Apache-2.0
//
// ckpt-restore --all: restores, for example at boot, the programs whose images are in a folder.
//
// The newest image of each program is used. A program is identified by its first session and its
// PID, which its images keep through any number of restores. It is skipped if it has ended by
// itself since then (end_mark.h) or is already running, so the command may be repeated. If its
// newest image is damaged, the next older one is used. Users take turns (turns.h): a program that
// never becomes ready does not keep other users' programs waiting.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "storage/io/key_file.h"

namespace ckpt::tools {

struct RestoreAllOptions {
  std::string folder;
  std::string key_file;
  storage::KeyAccess key_access = storage::KeyAccess::Private;
  std::optional<std::chrono::seconds> user_time = {};  // for all programs of a user
  std::vector<std::string> options;                    // for every ckpt-restore
};

// Prints a line for each image. Returns the exit code: 0 if every program that should run does.
Result<int> restore_all(const RestoreAllOptions &options);

}  // namespace ckpt::tools
