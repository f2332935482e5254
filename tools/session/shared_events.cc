// SPDX-License-Identifier: Apache-2.0
#include "tools/session/shared_events.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

namespace ckpt::tools {
namespace {

// Each takes a descriptor of the keeper's.
constexpr size_t kMostProcesses = 4096;

bool has_ended(const UniqueFd &process) {
  pollfd p{process.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

}  // namespace

Result<> SharedEvents::make_board() {
  CKPT_TRY(UniqueFd memory, EventBoard::make());
  CKPT_TRY(board_, EventBoard::map(memory.get()));
  memory_ = std::move(memory);
  return {};
}

Result<int> SharedEvents::join(u64 token, pid_t pid) {
  if (!board_) CKPT_CHECK(make_board());
  if (users_.contains(token)) return memory_.get();
  if (users_.size() >= kMostProcesses)
    return fail("{} processes of the program share events, and no more are possible",
                kMostProcesses);
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return fail_errno("cannot watch the process {}", pid);
  watch_(process.get(), [this, token] { return ended(token); });
  users_[token] = std::move(process);
  return memory_.get();
}

bool SharedEvents::ended(u64 token) {
  board_->end_of(token);
  users_.erase(token);
  return false;
}

void SharedEvents::settle() {
  for (auto &[token, process] : users_)
    if (has_ended(process)) board_->end_of(token);
}

}  // namespace ckpt::tools
