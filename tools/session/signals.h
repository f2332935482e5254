// SPDX-License-Identifier: Apache-2.0
//
// The signals of a session keeper. They are blocked and read from a signalfd instead of being
// caught, so that the program inherits the dispositions that the keeper was started with (by nohup,
// or as a background job).
#pragma once

#include <signal.h>
#include <sys/signalfd.h>

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// By slurm/spank_ckpt.c: names of signals that were blocked for this tool, so that those of a job's
// first moments wait. The program is to get them unblocked.
inline constexpr const char *kHeldSignals = "CKPT_HELD_SIGNALS";

class KeeperSignals {
 public:
  // Blocks the signals in this thread and in all threads that it starts later. May be called before
  // take(), so that no signal is lost.
  static void block();
  static Result<KeeperSignals> take();
  // Those that a batch system sends to a job.
  static std::vector<int> of_batch_systems();
  // One of these by its name, with or without SIG, or by its number; 0: none of them.
  static int named(std::string name);
  int fd() const { return fd_.get(); }
  std::optional<signalfd_siginfo> next();
  // The program's: without what was blocked for this tool alone (kHeldSignals).
  const sigset_t &original_mask() const { return original_mask_; }
  // Restores SIGCHLD's disposition, in a child before exec.
  static void restore_dispositions();

 private:
  UniqueFd fd_;
  sigset_t original_mask_{};
};

// True for a signal that the terminal sent to its whole foreground process group, and so to the
// program too.
bool from_terminal(const signalfd_siginfo &info);

// Ends this process as the program ended: with its exit code, or by its signal (without a second
// core file), or with 128+N if signal N does not kill this process.
[[noreturn]] void end_like(int wait_status);

}  // namespace ckpt::tools
