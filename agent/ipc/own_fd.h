// SPDX-License-Identifier: Apache-2.0
//
// The agent's descriptors, and what a fork does to them. Close-on-exec does not help a child that
// never execs, so every descriptor of ours stands in a table that the child's fork handler walks.
// No fork may fall between a descriptor's birth and its entry: both happen behind the fork gate,
// which the handlers of agent.cc take too.
#pragma once

#include <mutex>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::agent {

// Lock order: after the mutex of agent.cc. Held for moments, never across a wait without an end.
std::mutex &fork_gate();

// A UniqueFd that a forked child closes. Sockets are not shut down first: that way a peer that sees
// the hang-up knows that nobody holds the descriptor any more, and CRIU may look. Not to be
// destroyed behind the fork gate.
class OwnFd {
 public:
  OwnFd() = default;
  OwnFd(UniqueFd fd, const std::scoped_lock<std::mutex> &behind_the_gate);
  OwnFd(OwnFd &&o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  OwnFd &operator=(OwnFd &&o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~OwnFd() { close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();

  // Calls `born`, which returns a Result<UniqueFd>, behind the gate.
  template <class Born>
  static Result<OwnFd> make(Born born) {
    std::scoped_lock lock(fork_gate());
    Result<UniqueFd> fd = born();
    if (!fd) return Failure(std::move(fd).error());
    return OwnFd(std::move(*fd), lock);
  }

 private:
  int fd_ = -1;
};

// In the child of a fork, behind the gate: closes every descriptor in the table. Async-signal-safe.
void close_own_fds_in_child();

}  // namespace ckpt::agent
