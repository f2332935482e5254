// SPDX-License-Identifier: Apache-2.0
//
// /proc/PID/status (proc_pid_status(5)): what the kernel says about a process or a thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::proc {

struct Status {
  char state = '?';
  pid_t parent = 0;
  pid_t tracer = 0;
  std::vector<pid_t> pids;  // from the outermost PID namespace that can be seen to its own
  std::vector<pid_t> groups_of_processes, sessions;
  std::array<uid_t, 4> uids{};  // real, effective, saved, of the file system
  std::array<gid_t, 4> gids{};
  std::vector<gid_t> groups;
  u64 inheritable = 0, permitted = 0, effective = 0, bounding = 0, ambient = 0;  // capabilities
  u64 pending_signals = 0;  // of the process, not of its threads: bit N - 1 is signal N
  u64 blocked_signals = 0;  // by the thread itself
  u64 resident_bytes = 0, locked_bytes = 0;  // 0 also for a process that has ended
  bool no_new_privileges = false;
  int seccomp = 0;  // seccomp(2): 0 none, 1 strict, 2 a filter

  bool has_uid(uid_t uid) const;  // in all four
  bool has_ended() const { return state == 'Z' || state == 'X'; }
  pid_t pid_inside() const { return pids.back(); }  // in its own PID namespace
};

// No value: not the text of such a file.
std::optional<Status> parse_status(std::string_view text);
Result<Status> read_status(pid_t pid);
Result<Status> read_status(pid_t pid, pid_t thread);

// In ascending order.
std::vector<pid_t> processes();
std::vector<pid_t> threads_of(pid_t pid);
// The descriptors that a process has open. None of one that has ended meanwhile, for which an
// iterator of std::filesystem would throw.
std::vector<int> descriptors_of(pid_t pid);
// A duplicate of one of them (pidfd_getfd(2)); needs the right to trace the process.
UniqueFd duplicate_descriptor(pid_t pid, int fd);
// Those of this process, without that of the look itself.
Result<std::vector<int>> own_descriptors();
// `root` and its descendants.
std::vector<pid_t> tree_of(pid_t root);

// The inode of /proc/PID/ns/NAME: equal for processes in the same namespace. 0: unknown.
u64 namespace_inode(pid_t pid, const char *name);

}  // namespace ckpt::proc
