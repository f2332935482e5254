// SPDX-License-Identifier: Apache-2.0
//
// The POSIX timers of a process (timer_create(2)), as far as a restore depends on them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::tools {

// The clock of the CPU time of one process or thread (clock_getcpuclockid(3)).
struct CpuClock {
  pid_t id;  // 0: of the process or thread that made the timer
  bool of_thread;

  // Nothing for any other clock.
  static std::optional<CpuClock> of(i32 clock);
  static i32 of_thread_with(pid_t id);
};

struct PosixTimer {
  i32 clock = 0;
  int notify = 0;  // SIGEV_SIGNAL, SIGEV_NONE or SIGEV_THREAD_ID
  int signal = 0;

  // The timer's clock is that of the thread which made it. The kernel does not show which one that
  // is. Runtimes make such timers for the thread that is notified (Go's profiler), except the C
  // library, whose SIGEV_THREAD has a thread of its own.
  bool is_of_its_maker() const;
  bool is_of_notified_thread() const;
};

// Why CRIU cannot make a timer again, or would make one on another clock; "": it can. `threads`:
// the number of the process's; `is_inside`: whether a process is one of the program's.
std::string unrestorable_clock(const PosixTimer &t, size_t threads,
                               const std::function<bool(pid_t)> &is_inside);

// From /proc/PID/timers (proc_pid_timers(5)).
std::vector<PosixTimer> posix_timers_in(std::string_view text);
std::vector<PosixTimer> posix_timers_of(pid_t pid);

}  // namespace ckpt::tools
