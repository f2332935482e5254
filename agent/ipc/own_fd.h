// SPDX-License-Identifier: Apache-2.0
//
// The agent's descriptors, and why they are tracked.
//
// A fork() of the application duplicates every descriptor of the agent. Close-on-exec does not help
// in a child that never calls exec: the child would keep the sockets open. Then a tool that waits
// for the agent's hang-up waits until the child ends, CRIU finds a connection to a process outside
// the program, and memory in a memfd is not freed. So each descriptor of the agent is in a table,
// and the fork handler of the child (pthread_atfork(3), agent/runtime/agent.cc) closes all of them.
//
// No fork may happen between the creation of a descriptor and its entry in the table. Both are done
// with the fork gate held, a mutex that the fork handlers take as well:
//
//   CKPT_TRY(OwnFd socket, OwnFd::make([&] { return connect_unix(path); }));
#pragma once

#include <mutex>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::agent {

// Lock order: after the mutex of agent.cc. Never held during a wait without a time limit.
std::mutex &fork_gate();

// A UniqueFd that a forked child closes. Closing does not shut a socket down first: so a peer that
// sees the hang-up knows that no process holds the descriptor any more, and that CRIU may dump the
// program. Must not be destroyed with the fork gate held.
class OwnFd {
 public:
  OwnFd() = default;
  OwnFd(UniqueFd fd, const std::scoped_lock<std::mutex> &gate_held);
  OwnFd(OwnFd &&o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  OwnFd &operator=(OwnFd &&o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~OwnFd() { close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();

  // Calls `open`, which returns a Result<UniqueFd>, with the fork gate held.
  template <class Open>
  static Result<OwnFd> make(Open open) {
    std::scoped_lock lock(fork_gate());
    Result<UniqueFd> fd = open();
    if (!fd) return Failure(std::move(fd).error());
    return OwnFd(std::move(*fd), lock);
  }

 private:
  int fd_ = -1;
};

// In the child of a fork, with the fork gate held: closes every descriptor in the table.
// Async-signal-safe.
void close_own_fds_in_child();

}  // namespace ckpt::agent
