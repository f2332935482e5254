// SPDX-License-Identifier: Apache-2.0
//
// Which processes of this machine are guests, and how much of the processors they use.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::tools {

class Guests {
 public:
  // `root`: "" for this machine; a folder with proc/ and sys/ in tests.
  explicit Guests(std::string root = "") : root_(std::move(root)) {}

  // Accounts, by names or numbers.
  Result<> add_users(const std::string &names);
  // A cgroup of version 2 with all below it, as a path below /sys/fs/cgroup.
  Result<> add_cgroup(std::string path);

  bool has(pid_t pid) const;
  // Processor time since the call before. The kernel counts it for a cgroup. For accounts it is the
  // time of the processes that exist now: the last part of a process that has ended meanwhile is
  // missing, and counts as the owner's.
  double seconds_since_last();

 private:
  double cgroup_seconds() const;
  double processes_seconds();

  std::string root_, cgroup_;
  std::set<uid_t> users_;
  double cgroup_before_ = 0;
  std::map<std::pair<pid_t, u64>, u64> ticks_before_;  // by PID and start
  bool first_ = true;
};

}  // namespace ckpt::tools
