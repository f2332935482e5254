// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include "common/base/bytes.h"

namespace ckpt::proc {

// A thread that is stopped by ptrace(2), without a signal that its program could see. It is
// released at the end of the scope; a thread of a stopped process stays stopped. One that this
// thread of ours holds already is used as it is, and stays held.
class SeizedThread {
 public:
  explicit SeizedThread(pid_t thread);
  ~SeizedThread();
  SeizedThread(const SeizedThread &) = delete;
  SeizedThread &operator=(const SeizedThread &) = delete;

  // False if it could not be stopped: it has ended, or another process traces it.
  explicit operator bool() const { return stopped_; }
  pid_t id() const { return thread_; }
  bool request(int ptrace_request, u64 address, void *data) const;
  // Lets it take its next signal, which must be pending and not blocked. True if it has stopped
  // there; the signal is discarded, unless pass_on() is called.
  bool take(int signal);
  // Lets it run until it enters a system call, or has returned from it. False if it stopped
  // elsewhere.
  bool enter_system_call();
  bool leave_system_call();
  void pass_on(int signal) { passed_on_ = signal; }

 private:
  bool runs_until(int signal, int how);

  pid_t thread_;
  bool seized_ = false, stopped_ = false;
  int passed_on_ = 0;
};

}  // namespace ckpt::proc
