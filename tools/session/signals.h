// SPDX-License-Identifier: Apache-2.0
//
// The signals of a session keeper. They are blocked and read from a signalfd, not caught: so the
// dispositions that we were started with (nohup's, a background job's) reach the program untouched.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>

#include <optional>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

class KeeperSignals {
 public:
  // Blocks them in this thread and all that it starts later.
  static Result<KeeperSignals> take();
  int fd() const { return fd_.get(); }
  std::optional<signalfd_siginfo> next();
  const sigset_t &original_mask() const { return original_mask_; }
  // Puts SIGCHLD's disposition back; for a child before exec.
  static void restore_dispositions();

 private:
  UniqueFd fd_;
  sigset_t original_mask_{};
};

// True for a signal that the terminal sent to its whole foreground group: the program has it too.
bool from_terminal(const signalfd_siginfo &info);

// Ends this process as the program ended: its exit code, or death by its signal (without a second
// core file), or 128+N where a signal cannot kill us.
[[noreturn]] void end_like(int wait_status);

}  // namespace ckpt::tools
