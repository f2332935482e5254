// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulate/waits.h"

#include <algorithm>

namespace ckpt::schedule {

const std::vector<IdleTime::Sum> &IdleTime::sums_for(unsigned n) {
  auto [at, added] = sums_.try_emplace(n);
  std::vector<Sum> &sums = at->second;
  if (!added) return sums;
  sums.push_back({0, 0, false});
  std::vector<size_t> next(histories_.size());  // the first step that is still to come
  for (;;) {
    Ticks now = Calendar::kForever;
    for (size_t c = 0; c < next.size(); c++) {
      const std::vector<Step> &steps = histories_[c];
      if (next[c] < steps.size()) now = std::min(now, steps[next[c]].from);
    }
    if (now == Calendar::kForever) return sums;
    bool idle = false;
    for (size_t c = 0; c < next.size(); c++) {
      const std::vector<Step> &steps = histories_[c];
      if (next[c] < steps.size() && steps[next[c]].from == now) next[c]++;
      idle |= next[c] > 0 && steps[next[c] - 1].free >= n;
    }
    const Sum &last = sums.back();
    if (idle != last.idle)
      sums.push_back({now, last.before + (last.idle ? now - last.from : 0), idle});
  }
}

Ticks IdleTime::until(const std::vector<Sum> &sums, Ticks t) {
  auto after = std::upper_bound(sums.begin(), sums.end(), t,
                                [](Ticks time, const Sum &s) { return time < s.from; });
  const Sum &s = *(after - 1);
  return s.before + (s.idle ? t - s.from : 0);
}

Ticks IdleTime::within(const Interval &interval, unsigned n) {
  const std::vector<Sum> &sums = sums_for(n);
  return until(sums, interval.end) - until(sums, interval.begin);
}

}  // namespace ckpt::schedule
