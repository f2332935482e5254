// SPDX-License-Identifier: Apache-2.0
//
// Which images of a folder its rules keep (retention.h), and which stay for other reasons.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/image/image_folder.h"
#include "tools/image/retention.h"

namespace ckpt::tools {

enum class CountedBy {
  Program,  // the rules apply to the images of each program, however often it was restored
  Folder    // to all images of a user in the folder
};

struct KeepPlan {
  std::map<std::string, std::vector<std::string>> kept;  // by name, with the reasons
  std::map<std::string, std::string> left;               // not looked at, and why
  ImageFolder::Names gone;
};

// Fails if an image cannot be read, because it may need any other one.
Result<KeepPlan> plan_keep(const ImageFolder &folder, const Retention &rules, CountedBy by);

}  // namespace ckpt::tools
