// SPDX-License-Identifier: Apache-2.0
//
// Which processes can change a file: those that have it open for writing, and those with a shared
// mapping that was made from such a descriptor.
#pragma once

#include <compare>
#include <set>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/proc/maps.h"
#include "tools/proc/process.h"

namespace ckpt::tools {

struct FileId {
  u64 device = 0, inode = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): a false report of clang-tidy 14
  auto operator<=>(const FileId &) const = default;
};

struct FileWriter {
  FileId file;
  Process process;
};

// The link to the file of a mapping (proc_pid_map_files(5)).
std::string map_file(pid_t pid, const ProcMapping &m);
// The file of a mapping, for reading. Its link is for those with a capability (CHECKPOINT_RESTORE);
// others open it by its name, or by another one in its folder, if that leads there. `files`: what
// the process's paths begin with.
UniqueFd open_mapped(pid_t pid, const ProcMapping &m, const std::string &files);
// True if the process can change the file through the mapping, now or after mprotect(2).
bool can_write(pid_t pid, const ProcMapping &m);
// The processes that can change one of the files, without those in `except`. Processes that the
// caller may not inspect are missing.
std::vector<FileWriter> writers_of(const std::set<FileId> &files, const std::set<pid_t> &except);

}  // namespace ckpt::tools
