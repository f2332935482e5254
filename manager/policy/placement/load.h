// SPDX-License-Identifier: Apache-2.0
//
// How busy programs keep a GPU together. A GPU has two engines, one that computes and one that
// copies: programs that need different engines run side by side, and programs that need the same
// one wait for each other.
#pragma once

#include <algorithm>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::manager {

// The engines that a program needs, as parts of its time when it has a GPU for itself. An unknown
// program is assumed to be average, so that it is tried where a program like those on the GPU would
// lose.
struct Demand {
  double kernels = 0.5, bus = 0.5;
  bool known = false;
};

struct Load {
  double kernels = 0, bus = 0;
  u32 copying = 0;            // programs that need the bus
  std::vector<double> buses;  // of each program

  void add(const Demand &d) {
    kernels += d.kernels;
    bus += d.bus;
    buses.push_back(d.bus);
    if (d.bus >= kNeedsBus) copying++;
  }
  // How much longer than alone the programs take, until each has done what it does in a second
  // alone.
  double stretch() const { return std::max({1.0, kernels, bus * (copying > 1 ? kContention : 1)}); }

 private:
  static constexpr double kNeedsBus = 0.1;
  // Two programs that copied most of their time took 1.88 times as long beside each other (Mobile
  // CUDA's matrix of pairs). Each needs the bus for 0.68 of its time (bench/mobile/derive), so the
  // bus alone would explain 1.36.
  static constexpr double kContention = 1.4;
};

}  // namespace ckpt::manager
