// SPDX-License-Identifier: Apache-2.0
//
// The files of a process that has its own mounts or root folder, as in a container, where a path
// may lead to another file than here, or to no file. /proc/PID/root shows that process's files
// (proc_pid_root(5)); but a symbolic link on the way would lead to ours, so paths are resolved by
// openat2(2) with RESOLVE_IN_ROOT.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// True if a path means the same to the process as to this one.
bool shares_files(pid_t pid);
// True if both processes have the same root folder, perhaps with other mounts below it.
bool have_same_root(pid_t one, pid_t other);
// The same for this process and another one.
bool shares_root(pid_t pid);
// What a path of the process begins with here: "" or "/proc/PID/root".
std::string prefix_of_files(pid_t pid);

// `path` is absolute, as the process sees it.
Result<UniqueFd> open_folder_of(pid_t pid, const std::string &path);
// Fails if another process than `pid` listens there.
Result<UniqueFd> connect_unix_of(pid_t pid, const std::string &socket);
// Fails at once if the server's queue of connections is full.
Result<std::optional<UniqueFd>> connect_unix_at_once_of(pid_t pid, const std::string &socket);
// The first kilobytes of a regular file; "" if there is none.
std::string read_file_of(pid_t pid, const std::string &path);

}  // namespace ckpt::tools
