// SPDX-License-Identifier: Apache-2.0
//
// What killed tools have left in the runtime folder: folders of sessions, dumps and restores, and
// links to such folders (tools/restore/session_alias.h).
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// The owner of a folder holds a lock (flock(2)) on this file in it. The kernel releases it with the
// process.
inline constexpr const char *kLockFile = "lock";

// Creates the file in `folder` and locks it. Fails if a remover was faster.
Result<UniqueFd> lock_folder(const std::string &folder);

// Removes folders of this user that have lost their owner, and links of this user that lead
// nowhere. Returns their paths. What cannot be removed is left alone.
std::vector<std::string> remove_leftovers();

// Removes the folder `name` in the open folder `parent`, if it is this user's and its owner, which
// held the lock, has ended. Follows no link, and leaves folders in it alone.
bool remove_dead_folder(int parent, const std::string &name);

}  // namespace ckpt::tools
