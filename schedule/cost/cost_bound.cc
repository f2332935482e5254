// SPDX-License-Identifier: Apache-2.0
#include "schedule/cost/cost_bound.h"

#include <algorithm>
#include <cmath>

namespace ckpt::schedule {
namespace {

constexpr size_t kBlocks = 5;
constexpr double kFewSamplesMargin = 1.5;

// The load of a node is not known when a plan is made, so it counts as an error.
double exceeded(const SizedCost &cost, const SizedSample &s) {
  double predicted = cost.at(s.megabytes, s.stored_megabytes);
  return predicted > 0 ? s.seconds / predicted : 1;
}

void append_ratios(std::span<const SizedSample> samples, size_t begin, size_t end,
                   std::vector<double> &ratios) {
  std::vector<SizedSample> others(samples.begin(), samples.begin() + static_cast<long>(begin));
  others.insert(others.end(), samples.begin() + static_cast<long>(end), samples.end());
  SizedCost cost = fit_median(others.empty() ? samples : std::span<const SizedSample>(others));
  for (const SizedSample &s : samples.subspan(begin, end - begin))
    ratios.push_back(exceeded(cost, s));
}

// measured / predicted.
std::vector<double> ratios_of(std::span<const SizedSample> samples) {
  std::vector<double> ratios;
  size_t n = samples.size();
  for (size_t block = 0; block < kBlocks; block++)
    append_ratios(samples, n * block / kBlocks, n * (block + 1) / kBlocks, ratios);
  return ratios;
}

double spread_of(const std::vector<double> &ratios) {
  double n = static_cast<double>(ratios.size()), sum = 0, squares = 0;
  for (double r : ratios) sum += std::log(r);
  for (double r : ratios) squares += std::pow(std::log(r) - sum / n, 2);
  return std::sqrt(squares / n);
}

}  // namespace

double seldom_exceeded(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  auto rank = static_cast<size_t>(std::ceil(kCoverage * static_cast<double>(values.size() + 1)));
  return rank <= values.size() ? values[rank - 1] : kFewSamplesMargin * values.back();
}

CostBound bound_cost(std::span<const SizedSample> samples) {
  std::vector<SizedSample> timed;
  for (const SizedSample &s : samples)
    if (s.seconds > 0) timed.push_back(s);
  CostBound bound{.median = fit_median(timed), .samples = timed.size()};
  if (timed.empty()) return bound;
  std::vector<double> ratios = ratios_of(timed);
  bound.factor = std::max(1.0, seldom_exceeded(ratios));  // not below the median
  bound.spread = spread_of(ratios);
  return bound;
}

Line CostBound::worst_case() const {
  return {factor * (median.per_megabyte + median.per_stored_megabyte), factor * median.base};
}

}  // namespace ckpt::schedule
