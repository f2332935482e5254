// SPDX-License-Identifier: Apache-2.0
//
// Stopped processes that stay stopped. Any process of the same user may send SIGCONT, and Slurm
// does before it ends a job. The kernel continues no thread that a tracer holds (ptrace(2),
// "Group-stop" and PTRACE_SEIZE): the signal takes effect when the thread is released. A thread
// that may not be traced (another user, Yama's ptrace_scope) is not held.
#pragma once

#include <set>
#include <vector>

#include "tools/proc/process.h"

namespace ckpt::tools {

class HeldProcesses {
 public:
  HeldProcesses() = default;
  ~HeldProcesses() { release(); }
  HeldProcesses(const HeldProcesses &) = delete;
  HeldProcesses &operator=(const HeldProcesses &) = delete;

  // All of their threads, to which a stop signal was sent. Waits until they have stopped, for some
  // seconds at most.
  void hold(const std::vector<Process> &processes);
  // The PID of one that is not stopped; 0: all are.
  static pid_t find_continued(const std::vector<Process> &processes);
  bool holds(pid_t thread) const { return held_.contains(thread); }
  bool request(pid_t thread, int ptrace_request, u64 address, void *data) const;
  // The threads that have been killed. Their parent is told only after their tracer.
  void reap();
  // Those to which SIGCONT was sent meanwhile run, and the others stay stopped.
  void release();

 private:
  std::set<pid_t> held_;  // threads
};

}  // namespace ckpt::tools
