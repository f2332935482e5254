// SPDX-License-Identifier: Apache-2.0
//
// A process beside the keeper, as long as memory is owed to a program. Keeper and guard share one
// table of descriptors (clone(2), CLONE_FILES), so both hold every userfaultfd, those of children
// that the program forks meanwhile included, from the moment in which it exists. If one of the two
// is killed, missing pages do not become zeros: the program waits, and the other one ends it.
#pragma once

#include <sys/types.h>

#include <atomic>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

class LazyGuard {
 public:
  LazyGuard() = default;
  LazyGuard(const LazyGuard &) = delete;
  ~LazyGuard() { release(); }

  // Before this process has a second thread, and before its Keeper exists, which would take the
  // guard for a process of the program.
  Result<> start();
  // If this process is killed, the guard ends this stem and all processes below it.
  void watch_over(pid_t stem) { shared_->stem = stem; }
  bool released() const { return !shared_; }
  // Readable when the guard has ended.
  int ended_fd() const { return guard_.get(); }
  // The program has all its memory.
  void release();

 private:
  struct Shared {
    std::atomic<pid_t> stem = 0;
    std::atomic<bool> released = false;
  };
  [[noreturn]] void guard() const;

  Shared *shared_ = nullptr;
  UniqueFd keeper_, guard_;  // pidfds
  pid_t pid_ = 0;
};

}  // namespace ckpt::tools
