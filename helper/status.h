// SPDX-License-Identifier: Apache-2.0
//
// /proc/PID/status: the identity and the capabilities of a process (proc_pid_status(5)).
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::helper {

struct Status {
  pid_t parent = 0;
  pid_t pid_inside = 0;         // in its own PID namespace
  std::array<uid_t, 4> uids{};  // real, effective, saved, of the file system
  std::array<gid_t, 4> gids{};
  std::vector<gid_t> groups;
  u64 inheritable = 0, permitted = 0, effective = 0, bounding = 0, ambient = 0;  // capabilities
  bool no_new_privileges = false;
  bool seccomp = false;

  bool has_uid(uid_t uid) const;  // in all four
};

// No value: not the text of such a file.
std::optional<Status> parse_status(std::string_view text);
Result<Status> read_status(pid_t pid);

// `root` and its descendants.
std::vector<pid_t> tree_of(pid_t root);

// The inode of /proc/PID/ns/NAME: equal for processes in the same namespace. 0: unknown.
u64 namespace_inode(pid_t pid, const char *name);

}  // namespace ckpt::helper
