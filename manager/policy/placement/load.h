// SPDX-License-Identifier: Apache-2.0
//
// How busy programs keep a GPU together. It has two profiles of engines, of which one copies while
// the other computes: programs that need different ones go on side by side, and those that need the
// same one wait for each other.
#pragma once

#include <algorithm>

#include "common/base/bytes.h"

namespace ckpt::manager {

// Of a program that has a GPU for itself: parts of its time. Of whom nothing is known is taken for
// something in between, so that it is tried where one like those that are there would lose.
struct Demand {
  double kernels = 0.5, bus = 0.5;
  bool known = false;
};

struct Load {
  double kernels = 0, bus = 0;
  u32 copying = 0;  // programs that need the bus

  void add(const Demand &d) {
    kernels += d.kernels;
    bus += d.bus;
    if (d.bus >= kNeedsBus) copying++;
  }
  // How much longer than alone programs take until each has done what it does in a second alone.
  double stretch() const { return std::max({1.0, kernels, bus * (copying > 1 ? kCrowd : 1)}); }

 private:
  static constexpr double kNeedsBus = 0.1;
  // Two programs that copied most of their time took 1.88 times as long beside each other (Mobile
  // CUDA's matrix of interference), where the bus alone, 0.68 of the time of each
  // (bench/mobile/derive), would have let them have 1.36.
  static constexpr double kCrowd = 1.4;
};

}  // namespace ckpt::manager
