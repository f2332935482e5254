// SPDX-License-Identifier: Apache-2.0
//
// A permanent reference to a process. A PID is only a number: once the process has ended and is
// reaped, the kernel may give the number to another process, even to one of another user. A user
// who can end the processes of a program can choose that moment. A handle (pidfd_open(2)) always
// refers to the same process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "tools/proc/process.h"

namespace ckpt::tools {

class ProcessHandle {
 public:
  ProcessHandle() = default;
  static Result<ProcessHandle> open(pid_t pid);
  // While this is true the PID is the process's own; it may have ended, but it is not reaped.
  bool has_pid() const { return signal(0); }
  // False if the process has ended.
  bool signal(int number) const;
  // Waits for its end. False: it has not ended, or there is no process.
  bool ends_within(std::chrono::milliseconds time) const;
  // Readable when the process has ended.
  int descriptor() const { return fd_.get(); }

 private:
  explicit ProcessHandle(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// Handles of all these processes, the tree of `root`, which do not change meanwhile. Fails if one
// of them is not in that tree any more.
Result<std::vector<ProcessHandle>> handles_of_tree(pid_t root,
                                                   const std::vector<Process> &processes);

}  // namespace ckpt::tools
