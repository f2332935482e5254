// SPDX-License-Identifier: Apache-2.0
//
// The history of one user, read by another one: root reads those of all users. What is in it is the
// user's, and so is every folder on the way to it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::tools {

struct UserHistory {
  std::string user;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string file;
};

// This user's own, or the file that is named, which is its owner's.
Result<UserHistory> one_history(const std::string &named);
// Root's own, and those in the home folders of all users: those that getpwent(3) lists, and the
// owners of the folders in `homes`, for name services that list no users.
Result<std::vector<UserHistory>> all_histories(const std::vector<std::string> &homes);

// How far a history was read.
struct ReadUpTo {
  std::string file;  // which file it was: device and inode
  u64 offset = 0;
  std::string older;  // the FILE.1 at that time, which was read before
};

// The events that were added since, also if FILE has become FILE.1 meanwhile. Opens the files with
// the rights of their user: a link leads only where the user may read, and home folders on a file
// system that grants root nothing can be read. No file is no event.
Result<std::vector<nlohmann::json>> events_since(const UserHistory &history, ReadUpTo &up_to);

// Whether an image is there, or cannot be looked at. Asked with the user's rights, too.
bool may_exist(const UserHistory &history, const std::string &image);

}  // namespace ckpt::tools
