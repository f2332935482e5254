// SPDX-License-Identifier: Apache-2.0
//
// Left-overs of killed tools in the runtime folder: folders of sessions, dumps and restores, and
// links to such folders (tools/restore/session_alias.h).
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// The owner of a folder holds locks (flock(2)) on the folder and on this file in it. The kernel
// releases them with the process. systemd-tmpfiles(8) leaves a folder alone that is locked; tools
// of earlier versions look at the file.
inline constexpr const char *kLockFile = "lock";
struct FolderLock {
  UniqueFd folder, file;
};

// Creates the file in `folder` and locks both. Fails if the folder was removed meanwhile.
Result<FolderLock> lock_folder(const std::string &folder);

// Removes folders of this user that have lost their owner, and links of this user that lead
// nowhere. Returns their paths. Folders that cannot be removed are left in place.
std::vector<std::string> remove_leftovers();

// The folder of a session in which a restore supplies files of the program
// (manifest/carried_files.h).
inline constexpr const char *kSuppliedFolder = "files";

// Removes the folder `name` in the open folder `parent`, if it is this user's and its owner, which
// held the lock, has ended. Follows no link, and leaves folders in it alone, except for the
// supplied files.
bool remove_dead_folder(int parent, const std::string &name);

}  // namespace ckpt::tools
