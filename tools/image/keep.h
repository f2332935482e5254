// SPDX-License-Identifier: Apache-2.0
//
// Which images of a folder its rules keep (retention.h), which stay for other reasons, and which go
// although a rule keeps them, because there is too little room.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/image/image_folder.h"
#include "tools/image/retention.h"

namespace ckpt::tools {

enum class CountedBy {
  Program,  // the rules apply to the images of each program, however often it was restored
  Folder    // to all images of a user in the folder
};

struct KeepRules {
  Retention times;
  // What the kept images of a folder may take on the disk.
  std::optional<u64> most_bytes;
  // No rule keeps images of a program of which none was written since then.
  std::optional<time_t> unused_since;
  CountedBy by = CountedBy::Program;

  bool any() const { return times.has_rules() || most_bytes || unused_since; }
};

struct KeepPlan {
  std::map<std::string, std::vector<std::string>> kept;  // by name, with the reasons
  std::map<std::string, std::string> left;               // not looked at, and why
  ImageFolder::Names gone;
  ImageFolder::Names newest;  // of each program; these never go for want of room
  u64 bytes_over = 0;         // by which the kept ones exceed `most_bytes`
};

// Fails if an image cannot be read, because it may need any other one.
Result<KeepPlan> plan_keep(const ImageFolder &folder, const KeepRules &rules);

}  // namespace ckpt::tools
