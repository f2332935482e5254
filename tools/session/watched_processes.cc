// SPDX-License-Identifier: Apache-2.0
#include "tools/session/watched_processes.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ckpt::tools {
namespace {

// Each takes a descriptor of the keeper's.
constexpr size_t kMostProcesses = 4096;

bool has_ended(const UniqueFd &process) {
  pollfd p{process.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

}  // namespace

Result<> WatchedProcesses::join(u64 token, pid_t pid) {
  if (processes_.contains(token)) return {};
  if (processes_.size() >= kMostProcesses)
    return fail("{} processes of the program share memory or events of devices, and no more can",
                kMostProcesses);
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return fail_errno("cannot watch the process {}", pid);
  watch_(process.get(), [this, token] { return noticed(token); });
  processes_[token] = std::move(process);
  return {};
}

bool WatchedProcesses::noticed(u64 token) {
  ended_(token);
  processes_.erase(token);
  return false;
}

void WatchedProcesses::settle() {
  for (auto &[token, process] : processes_)
    if (has_ended(process)) ended_(token);
}

}  // namespace ckpt::tools
