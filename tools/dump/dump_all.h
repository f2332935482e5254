// SPDX-License-Identifier: Apache-2.0
//
// ckpt-dump --all: one image of each program of a user or of the node, into one folder. A separate
// ckpt-dump writes each image, four at a time and in turns of the users (turns.h); a failure does
// not stop the others.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/dump/cancel.h"

namespace ckpt::tools {

struct DumpAllOptions {
  std::string folder;  // must exist
  std::string user;    // see selected_user()
  // Afterwards remove the older images of the same programs in the folder.
  bool remove_older = false;
  std::optional<std::chrono::seconds> user_time = {};  // for all programs of a user
  bool json = false, quiet = false;
  std::vector<std::string> options;  // for every ckpt-dump
};

// Prints a line for each program. Returns the exit code: 0 if every program was dumped.
Result<int> dump_all(const DumpAllOptions &options, Cancel &cancel);

}  // namespace ckpt::tools
