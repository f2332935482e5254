// SPDX-License-Identifier: Apache-2.0
//
// The monotonic clock. Deadlines and durations use it alone: the clock of the day may be set.
#pragma once

#include <time.h>

#include <chrono>

#include "common/base/bytes.h"

namespace ckpt {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC in libstdc++ and libc++

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Nanoseconds, for times that several processes of a machine compare.
inline i64 monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

// The same at the last tick of the kernel, which costs less.
inline i64 coarse_monotonic_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return static_cast<i64>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace ckpt
