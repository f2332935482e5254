// SPDX-License-Identifier: Apache-2.0
//
// Processes of programs that have announced their exit (Fin) and still have device memory: a driver
// takes a moment to release it. A process that outlives its announced exit by more than kGrace
// counts as unmanaged from then on.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>

#include "manager/policy/time.h"

namespace ckpt::manager {

class ExitingClients {
 public:
  static constexpr std::chrono::seconds kGrace{10};

  void add(Time now, pid_t pid) { since_.try_emplace(pid, now); }
  // Its memory should become free in a moment.
  bool is_exiting(Time now, pid_t pid) const {
    auto it = since_.find(pid);
    return it != since_.end() && now - it->second < kGrace;
  }
  bool contains(pid_t pid) const { return since_.contains(pid); }
  // Forgets all others.
  void keep(const std::set<pid_t> &pids) {
    std::erase_if(since_, [&](const auto &p) { return !pids.contains(p.first); });
  }

 private:
  std::map<pid_t, Time> since_;
};

}  // namespace ckpt::manager
