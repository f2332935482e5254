// SPDX-License-Identifier: Apache-2.0
//
// Processes of a program, by a token that each has chosen, with which the keeper notices their
// ends.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

class WatchedProcesses {
 public:
  // Calls the function when the descriptor is readable, until it returns false (Keeper::watch).
  using Watch = std::function<void(int, std::function<bool()>)>;
  using Ended = std::function<void(u64 token)>;
  WatchedProcesses(Watch watch, Ended ended) : watch_(std::move(watch)), ended_(std::move(ended)) {}

  // The process `pid` runs. Does nothing if it is watched already.
  Result<> join(u64 token, pid_t pid);
  // Looks for processes that have ended, as far as they were not noticed yet.
  void settle();

 private:
  bool noticed(u64 token);

  Watch watch_;
  Ended ended_;
  std::map<u64, UniqueFd> processes_;  // their pidfds, by token
};

}  // namespace ckpt::tools
