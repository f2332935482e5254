// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/timers.h"

#include <signal.h>

#include <fmt/format.h>

#include "common/base/words.h"
#include "common/proc/file.h"

namespace ckpt::tools {
namespace {

// The bits of such a clock (the kernel's include/linux/posix-timers_types.h).
constexpr i32 kThreadBit = 4, kKindBits = 3, kScheduled = 2, kOtherKind = 3;
constexpr int kSignalOfLibrary = 32;  // SIGTIMER of glibc

}  // namespace

std::optional<CpuClock> CpuClock::of(i32 clock) {
  if (clock >= 0 || (clock & kKindBits) == kOtherKind) return std::nullopt;
  return CpuClock{~(clock >> 3), (clock & kThreadBit) != 0};
}

i32 CpuClock::of_thread_with(pid_t id) {
  return static_cast<i32>(~static_cast<u32>(id) << 3) | kThreadBit | kScheduled;
}

bool PosixTimer::is_of_its_maker() const {
  std::optional<CpuClock> cpu = CpuClock::of(clock);
  return cpu && cpu->of_thread && cpu->id == 0;
}

bool PosixTimer::is_of_notified_thread() const {
  return is_of_its_maker() && (notify & SIGEV_THREAD_ID) && signal != kSignalOfLibrary;
}

std::string unrestorable_clock(const PosixTimer &t, size_t threads,
                               const std::function<bool(pid_t)> &is_inside) {
  std::optional<CpuClock> cpu = CpuClock::of(t.clock);
  if (cpu && !cpu->of_thread && cpu->id != 0 && !is_inside(cpu->id))
    return fmt::format(
        "a timer (timer_create) on the CPU clock of process {}, which is not a part of the "
        "program: "
        "let it delete the timer (timer_delete)",
        cpu->id);
  if (threads > 1 && t.is_of_its_maker() && !t.is_of_notified_thread())
    return "a timer (timer_create) on CLOCK_THREAD_CPUTIME_ID, and the kernel does not show of "
           "which "
           "thread: let it use the clock of pthread_getcpuclockid instead";
  return {};
}

// "ID: 0", "signal: 27/00007ffd2f8e", "notify: signal/tid.1234", "ClockID: -14", for each timer.
std::vector<PosixTimer> posix_timers_in(std::string_view text) {
  std::vector<PosixTimer> timers;
  for (std::string_view line : lines_of(text)) {
    if (line.starts_with("ID: ")) timers.emplace_back();
    if (timers.empty()) continue;
    PosixTimer &t = timers.back();
    if (line.starts_with("signal: ")) t.signal = leading_number(line.substr(8), 0);
    if (line.starts_with("notify: none")) t.notify |= SIGEV_NONE;
    if (line.starts_with("notify: ") && line.find("/tid.") != line.npos)
      t.notify |= SIGEV_THREAD_ID;
    if (line.starts_with("ClockID: ")) t.clock = leading_number(line.substr(9), 0);
  }
  return timers;
}

std::vector<PosixTimer> posix_timers_of(pid_t pid) {
  return posix_timers_in(proc::text(pid, "timers"));
}

}  // namespace ckpt::tools
