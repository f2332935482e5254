// SPDX-License-Identifier: Apache-2.0
//
// Costs by two sizes: the data that a program holds, and the data that is stored after compression.
// A line over the first size alone (cost_model.h) cannot fit both programs with zeros and programs
// with noise, because only the stored data is written to the storage.
//
// The fit goes through the middle: half of the samples cost more. It has the least sum of
// |log(predicted / measured)|, so that half of a cost is as wrong as twice the cost. The least
// squares of relative errors (KS-4) would be too low wherever costs spread, because a prediction
// near zero has an error of 1 at most; plain least squares would fit the largest programs alone.
#pragma once

#include <span>

#include "schedule/cost/cost_model.h"

namespace ckpt::schedule {

struct SizedCost {
  double per_megabyte = 0, per_stored_megabyte = 0, base = 0;
  // The share of the cost that grows with the load of the node: 0 none of it, 1 all of it.
  double of_load = 0;

  // `load`: the processes that want to run for each core; up to 1 there is a core for each.
  double slowdown(double load) const { return load > 1 ? 1 + of_load * (load - 1) : 1; }
  double at(double megabytes, double stored_megabytes, double load = 1) const {
    return (per_megabyte * megabytes + per_stored_megabyte * stored_megabytes + base) *
           slowdown(load);
  }
};

struct SizedSample {
  double megabytes = 0, stored_megabytes = 0, seconds = 0;
  double load = 1;  // 1, too, where it is not known
};

// No part is negative. Samples without a positive time are ignored.
SizedCost fit_median(std::span<const SizedSample> samples);

}  // namespace ckpt::schedule
