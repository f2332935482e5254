// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/profile/rate.h"

#include <algorithm>

namespace ckpt::manager {

namespace {

constexpr size_t kMaxIntervals = 63;

}  // namespace

void Rate::add(double amount, Time time) {
  Interval last{static_cast<float>(amount), static_cast<float>(seconds(time))};
  if (intervals_.size() < kMaxIntervals)
    intervals_.push_back(last);
  else
    intervals_[next_++ % kMaxIntervals] = last;
  amount_ = seconds_ = 0;
  for (const Interval &i : intervals_) {
    amount_ += i.amount;
    seconds_ += i.seconds;
  }
  std::vector<Interval> sorted = intervals_;
  auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle, {}, &Interval::rate);
  median_ = middle->rate();
}

}  // namespace ckpt::manager
