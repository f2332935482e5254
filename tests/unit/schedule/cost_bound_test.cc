// SPDX-License-Identifier: Apache-2.0
#include "schedule/cost/cost_bound.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

using namespace ckpt::schedule;

namespace {

// Costs that spread by `spread` (the standard deviation of their logarithms) around 0.3 + 0.01 M.
std::vector<SizedSample> costs(size_t n, double spread, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> error(0, spread);
  std::uniform_real_distribution<double> size(1, 500);
  std::vector<SizedSample> samples;
  while (samples.size() < n) {
    double mb = size(random);
    samples.push_back({mb, 0, (0.3 + 0.01 * mb) * std::exp(error(random))});
  }
  return samples;
}

double share_above(const CostBound &bound, const std::vector<SizedSample> &later) {
  double above = 0;
  for (const SizedSample &s : later) above += s.seconds > bound.at(s.megabytes, s.stored_megabytes);
  return above / static_cast<double>(later.size());
}

}  // namespace

TEST_CASE("few later costs exceed the bound, however the costs spread") {
  for (double spread : {0.05, 0.25, 0.6, 1.0})
    for (unsigned seed : {1u, 2u, 3u, 4u, 5u}) {
      CostBound bound = bound_cost(costs(300, spread, seed));
      CAPTURE(spread);
      CAPTURE(seed);
      CHECK(bound.has_enough());
      CHECK(share_above(bound, costs(1000, spread, seed + 100)) <= 0.05);
      CHECK(bound.spread == doctest::Approx(spread).epsilon(0.2));
      CHECK(bound.factor < std::exp(3.5 * spread));
      // The median alone is too low for half of them.
      CostBound median = bound;
      median.factor = 1;
      CHECK(share_above(median, costs(1000, spread, seed + 100)) > 0.3);
    }
}

TEST_CASE("a load that is to come is part of the bound") {
  std::vector<SizedSample> samples = costs(400, 0.05, 1);
  for (size_t i = 0; i < samples.size(); i += 4) {
    samples[i].load = 5;
    samples[i].seconds *= 5;
  }
  CostBound bound = bound_cost(samples);
  CHECK(bound.median.of_load == doctest::Approx(1));
  CHECK(bound.median.at(100, 0) == doctest::Approx(1.3).epsilon(0.05));
  CHECK(bound.at(100, 0) > 5 * 1.3);
}

TEST_CASE("few samples give a bound above all of them, and it is known that they are few") {
  std::vector<SizedSample> samples = costs(20, 0.3, 7);
  CostBound bound = bound_cost(samples);
  CHECK(!bound.has_enough());
  CHECK(share_above(bound, samples) == 0);
  CostBound none = bound_cost({});
  CHECK(none.samples == 0);
  CHECK(none.at(1, 1) == 0);
  CHECK(bound_cost(costs(1, 0, 1)).factor == doctest::Approx(1.5));
}

TEST_CASE("the worst case of a size is the bound of data that cannot be compressed") {
  std::vector<SizedSample> samples;
  for (double mb : {10.0, 100.0, 1000.0})
    for (double stored : {0.0, mb / 2})
      for (int i = 0; i < 10; i++) samples.push_back({mb, stored, 1 + 0.01 * mb + 0.1 * stored});
  CostBound bound = bound_cost(samples);
  CHECK(bound.factor == doctest::Approx(1));
  CHECK(bound.worst_case().at(200) == doctest::Approx(1 + 0.11 * 200));
}
