// SPDX-License-Identifier: Apache-2.0
//
// A cost that is seldom exceeded, for plans, in which no cost may be too low (KS-2).
//
// The bound is the median cost (median_fit.h) times a factor: the quantile of measured / predicted
// over the samples, each predicted by a fit to the others. So it holds for any distribution of the
// errors, and also for what the sizes do not explain, such as the load of a node to come (conformal
// prediction: Vovk, Gammerman and Shafer 2005; the blocks of samples are those of
// cross-validation).
//
// 0.98 of the samples, because the share of later costs that exceed a quantile of n samples varies
// around it: with 0.95, half of all histories would have more than 5 % of their later costs above.
#pragma once

#include <span>
#include <vector>

#include "schedule/cost/median_fit.h"

namespace ckpt::schedule {

inline constexpr double kCoverage = 0.98;
// With fewer, the quantile is above the largest sample: (n + 1) * 0.98 > n.
inline constexpr size_t kEnoughSamples = 49;

struct CostBound {
  SizedCost median;
  double factor = 1;
  size_t samples = 0;
  // The standard deviation of log(measured / predicted).
  double spread = 0;

  // If not, the factor is half as large again as the largest error so far, and may be too low.
  bool has_enough() const { return samples >= kEnoughSamples; }
  double at(double megabytes, double stored_megabytes) const {
    return factor * median.at(megabytes, stored_megabytes);
  }
  // Over the largest size that a program will have: as if nothing of it could be compressed.
  Line worst_case() const;
};

// `samples`: the oldest first. Those without a positive time are ignored.
CostBound bound_cost(std::span<const SizedSample> samples);

// The same for a figure that no size explains: the wait for a device, the size of a program. 0 if
// there is none.
double seldom_exceeded(std::vector<double> values);

}  // namespace ckpt::schedule
