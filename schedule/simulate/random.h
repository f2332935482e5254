// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that are the same on every machine: the distributions of the standard library
// differ from one library to the next.
#pragma once

#include <cmath>
#include <random>

#include "common/base/bytes.h"

namespace ckpt::schedule {

class Random {
 public:
  explicit Random(u64 seed) : bits_(seed) {}
  double uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }  // [0, 1)
  double between(double a, double b) { return a + uniform() * (b - a); }
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }
  size_t below(size_t n) { return static_cast<size_t>(uniform() * static_cast<double>(n)); }

 private:
  std::mt19937_64 bits_;
};

}  // namespace ckpt::schedule
