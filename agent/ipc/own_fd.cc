// SPDX-License-Identifier: Apache-2.0
#include "agent/ipc/own_fd.h"

#include <array>
#include <atomic>

namespace ckpt::agent {
namespace {

constinit std::mutex g_gate;

// An entry is the descriptor plus one, and zero if it is free: so the table needs no constructor.
constinit std::array<std::atomic<int>, 64> g_table{};

void exchange_entry(int from, int to) {
  for (std::atomic<int> &entry : g_table) {
    if (entry.load(std::memory_order_relaxed) != from) continue;
    entry.store(to, std::memory_order_relaxed);
    return;
  }
}

}  // namespace

std::mutex &fork_gate() { return g_gate; }

OwnFd::OwnFd(UniqueFd fd, const std::scoped_lock<std::mutex> &) : fd_(fd.release()) {
  if (fd_ >= 0) exchange_entry(0, fd_ + 1);
}

void OwnFd::close() {
  if (fd_ < 0) return;
  std::scoped_lock lock(g_gate);
  exchange_entry(fd_ + 1, 0);
  ::close(std::exchange(fd_, -1));
}

void close_own_fds_in_child() {
  for (std::atomic<int> &entry : g_table)
    if (int fd = entry.exchange(0, std::memory_order_relaxed) - 1; fd >= 0) ::close(fd);
}

}  // namespace ckpt::agent
