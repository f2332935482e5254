// SPDX-License-Identifier: Apache-2.0
//
// How much of something happens in a second, of the last stretches of time in which it was counted.
#pragma once

#include <vector>

#include "manager/policy/time.h"

namespace ckpt::manager {

class Rate {
 public:
  // In a stretch of that length, which is not 0.
  void add(double amount, Time time);

  // What is remembered.
  double amount() const { return amount_; }
  double duration() const { return seconds_; }  // seconds
  size_t stretches() const { return pieces_.size(); }
  // Of half of the stretches it was less: one who prepares its data for a while, or waits for
  // something, is not slow by it.
  double median() const { return median_; }
  double mean() const { return seconds_ > 0 ? amount_ / seconds_ : 0; }

 private:
  struct Piece {
    float amount = 0, seconds = 0;
    float rate() const { return amount / seconds; }
  };
  std::vector<Piece> pieces_;
  size_t next_ = 0;  // which is replaced, when there are enough
  double amount_ = 0, seconds_ = 0, median_ = 0;
};

}  // namespace ckpt::manager
