// SPDX-License-Identifier: Apache-2.0
//
// How often something happens per second, over the latest intervals in which it was counted.
#pragma once

#include <vector>

#include "manager/policy/time.h"

namespace ckpt::manager {

class Rate {
 public:
  // `amount` happened in an interval of `time`, which is not 0.
  void add(double amount, Time time);

  // The sums over the remembered intervals.
  double amount() const { return amount_; }
  double duration() const { return seconds_; }  // seconds
  size_t intervals() const { return intervals_.size(); }
  // The median: half of the intervals had a lower rate. So a program does not count as slow because
  // it prepares its data for a while, or waits.
  double median() const { return median_; }
  double mean() const { return seconds_ > 0 ? amount_ / seconds_ : 0; }

 private:
  struct Interval {
    float amount = 0, seconds = 0;
    float rate() const { return amount / seconds; }
  };
  std::vector<Interval> intervals_;
  size_t next_ = 0;  // the one to be replaced, when there are enough
  double amount_ = 0, seconds_ = 0, median_ = 0;
};

}  // namespace ckpt::manager
