// SPDX-License-Identifier: Apache-2.0
//
// The board of the events that processes of a program share (common/ipc/event_board.h), as their
// keeper has it: it makes the board, and sees when a process that uses it ends. What that process
// has recorded counts as complete then, so that no other one waits for it for ever.
#pragma once

#include <sys/types.h>

#include <optional>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/ipc/event_board.h"
#include "tools/session/watched_processes.h"

namespace ckpt::tools {

class SharedEvents {
 public:
  explicit SharedEvents(WatchedProcesses::Watch watch)
      : users_(std::move(watch), [this](u64 token) { board_->end_of(token); }) {}

  // The memory of the board, for the process `pid` with this token. The process runs.
  Result<int> join(u64 token, pid_t pid);
  // Looks for users that have ended, as far as they were not noticed yet.
  void settle() { users_.settle(); }

 private:
  Result<> make_board();

  UniqueFd memory_;
  std::optional<EventBoard> board_;
  WatchedProcesses users_;
};

}  // namespace ckpt::tools
