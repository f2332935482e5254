// SPDX-License-Identifier: Apache-2.0
//
// futex(2) on a word that processes may share. Timeouts are relative: CRIU restores a program into
// a time namespace of its own (time_namespaces(7)), so two processes must not exchange absolute
// monotonic times.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>

#include "common/base/bytes.h"
#include "common/base/clock.h"

namespace ckpt {

// Sleeps while `word` is `value`. Returns after `timeout`, after a wake-up, or spuriously.
inline void futex_wait(std::atomic<u32> &word, u32 value, std::chrono::milliseconds timeout) {
  timespec t{timeout.count() / 1000, (timeout.count() % 1000) * 1'000'000};
  ::syscall(SYS_futex, reinterpret_cast<u32 *>(&word), FUTEX_WAIT, value, &t, nullptr, 0);
}

inline void futex_wake_all(std::atomic<u32> &word) {
  ::syscall(SYS_futex, reinterpret_cast<u32 *>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Polls `done` for at most `time` and yields the core in between. True: `done` returned true.
template <class Done>
bool spin_until(Done done, std::chrono::microseconds time) {
  constexpr int kChecks = 16;  // a few hundred nanoseconds
  auto end = Clock::now() + time;
  do {
    for (int i = 0; i < kChecks; i++) {
      if (done()) return true;
      __builtin_ia32_pause();
    }
    ::sched_yield();
  } while (Clock::now() < end);
  return done();
}

// Increments `bell`, and wakes its sleepers if `waits` says that there are any.
inline void ring(std::atomic<u32> &bell, std::atomic<u32> &waits) {
  bell.fetch_add(1, std::memory_order_seq_cst);
  if (waits.load(std::memory_order_seq_cst) != 0) futex_wake_all(bell);
}

}  // namespace ckpt
