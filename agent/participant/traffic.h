// SPDX-License-Identifier: Apache-2.0
//
// What the way from a program to its devices costs it: how often its calls wait for an answer, how
// many bytes go along, and how fast the way has been. A tool predicts from this what a move would
// change (schedule/cost/move_forecast.h). Counted whether or not a tool ever asks: a call that
// waits costs tens of microseconds anyway.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "common/base/bytes.h"
#include "common/base/clock.h"

namespace ckpt::agent {

struct Traffic {
  u64 waits = 0;  // calls of the program that waited for an answer of another process, or that
                  // would wait if the device were on another node
  u64 bytes = 0;  // both ways
  // Of the way as it is now; 0: not known.
  u64 answer_ns = 0;         // the shortest wait for an answer
  u64 bytes_per_second = 0;  // of the fastest large transfer that was waited for
};

class TrafficCounter {
 public:
  void count_bytes(u64 bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void count_wait() { waits_.fetch_add(1, std::memory_order_relaxed); }
  // An answer of `bytes` bytes has come after `waited`.
  void note_answer(Clock::duration waited, u64 bytes) {
    u64 ns = static_cast<u64>(
        std::max<i64>(1, std::chrono::duration_cast<std::chrono::nanoseconds>(waited).count()));
    if (bytes <= kSmall) {
      u64 least = answer_ns_.load(std::memory_order_relaxed);
      while ((least == 0 || ns < least) && !answer_ns_.compare_exchange_weak(least, ns)) continue;
    } else if (bytes >= kLarge) {
      u64 rate = static_cast<u64>(static_cast<double>(bytes) * 1e9 / static_cast<double>(ns));
      u64 most = rate_.load(std::memory_order_relaxed);
      while (rate > most && !rate_.compare_exchange_weak(most, rate)) continue;
    }
  }
  // The program's devices are elsewhere from now on.
  void new_way() { answer_ns_ = rate_ = 0; }
  Traffic read() const { return {waits_, bytes_, answer_ns_, rate_}; }

 private:
  // An answer of at most kSmall bytes takes as long as an empty one, one of kLarge bytes as long as
  // its bytes.
  static constexpr u64 kSmall = 4096, kLarge = 1 << 20;
  std::atomic<u64> waits_{0}, bytes_{0}, answer_ns_{0}, rate_{0};
};

}  // namespace ckpt::agent
