// SPDX-License-Identifier: Apache-2.0
//
// What a search for idle intervals has to know of a stretch of steps, to skip it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "schedule/plan/job.h"

namespace ckpt::schedule {

inline constexpr Ticks kForever = INT64_MAX / 4;

struct Step {
  Ticks from;
  unsigned free;  // until the next step
};

// The intervals in which a number of nodes is free, in a stretch of steps.
struct IdleRuns {
  Ticks first_busy = kForever;  // when the first step begins that has too few; kForever: none has
  Ticks open_since = kForever;  // since when the last one is idle; kForever: it is not
  Ticks longest = 0;            // of the intervals that both begin and end after first_busy

  void append(const IdleRuns &next, Ticks next_from) {
    if (next.first_busy == kForever) {
      if (open_since == kForever) open_since = next_from;
      return;
    }
    if (first_busy == kForever)
      first_busy = next.first_busy;
    else if (open_since != kForever)
      longest = std::max(longest, next.first_busy - open_since);
    else
      longest = std::max(longest, next.first_busy - next_from);
    longest = std::max(longest, next.longest);
    open_since = next.open_since;
  }
};

// For numbers of nodes that are powers of two. Where 2^k nodes are not free, more are not either,
// so the level of a number, rounded down, has longer intervals than the number itself.
constexpr unsigned kIdleLevels = 17;
inline unsigned idle_level(unsigned nodes) {
  return std::min(kIdleLevels, static_cast<unsigned>(std::bit_width(nodes))) - 1;
}

// The runs of each level, once they were asked for.
class RunsByLevel {
 public:
  void forget() { known_ = 0; }
  template <class F>
  const IdleRuns &of(unsigned level, F &&count) const {
    if (!(known_ >> level & 1)) {
      runs_[level] = count();
      known_ |= 1u << level;
    }
    return runs_[level];
  }

 private:
  mutable std::array<IdleRuns, kIdleLevels> runs_;
  mutable u32 known_ = 0;
};

}  // namespace ckpt::schedule
