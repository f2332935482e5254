// SPDX-License-Identifier: Apache-2.0
//
// The board of the events that processes of a program share (common/ipc/event_board.h), as their
// keeper has it: it makes the board, and sees when a process that uses it ends. What that process
// has recorded counts as complete then, so that no other one waits for it for ever.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/ipc/event_board.h"

namespace ckpt::tools {

class SharedEvents {
 public:
  // Calls the function when the descriptor is readable, until it returns false (Keeper::watch).
  using Watch = std::function<void(int, std::function<bool()>)>;
  explicit SharedEvents(Watch watch) : watch_(std::move(watch)) {}

  // The memory of the board, for the process `pid` with this token. The process runs.
  Result<int> join(u64 token, pid_t pid);
  // Looks for users that have ended, as far as they were not noticed yet.
  void settle();

 private:
  Result<> make_board();
  bool ended(u64 token);

  Watch watch_;
  UniqueFd memory_;
  std::optional<EventBoard> board_;
  std::map<u64, UniqueFd> users_;  // their pidfds, by token
};

}  // namespace ckpt::tools
