// SPDX-License-Identifier: Apache-2.0
//
// Processes of programs that are over and still have device memory: a driver takes a moment to see
// that they are. Who said that it is over and goes on is, after that, somebody whom we do not know.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>

#include "manager/policy/time.h"

namespace ckpt::manager {

class ExitingClients {
 public:
  static constexpr std::chrono::seconds kMoment{10};

  void add(Time now, pid_t pid) { since_.try_emplace(pid, now); }
  // Its memory comes free in a moment.
  bool ends(Time now, pid_t pid) const {
    auto it = since_.find(pid);
    return it != since_.end() && now - it->second < kMoment;
  }
  bool contains(pid_t pid) const { return since_.contains(pid); }
  void keep(const std::set<pid_t> &pids) {
    std::erase_if(since_, [&](const auto &p) { return !pids.contains(p.first); });
  }

 private:
  std::map<pid_t, Time> since_;
};

}  // namespace ckpt::manager
