// SPDX-License-Identifier: Apache-2.0
#include "schedule/cost/median_fit.h"

#include <doctest/doctest.h>

#include <vector>

using namespace ckpt::schedule;

TEST_CASE("both sizes and the constant are found") {
  std::vector<SizedSample> samples;
  for (double mb : {10.0, 100.0, 1000.0})
    for (double share : {0.0, 0.3, 1.0})
      samples.push_back({mb, mb * share, 0.2 + 0.001 * mb + 0.01 * mb * share});
  SizedCost c = fit_median(samples);
  CHECK(c.per_megabyte == doctest::Approx(0.001));
  CHECK(c.per_stored_megabyte == doctest::Approx(0.01));
  CHECK(c.base == doctest::Approx(0.2));
  CHECK(c.of_load == 0);
}

TEST_CASE("the cost is in the middle, however far away some are") {
  std::vector<SizedSample> samples;
  for (double seconds : {0.9, 1.0, 1.1, 1.0, 0.95, 1.05, 1.0, 10.0, 100.0})
    samples.push_back({0, 0, seconds});
  CHECK(fit_median(samples).base == doctest::Approx(1.0).epsilon(0.02));
  // The least squares of relative errors are at 1.2.
  std::vector<SizedSample> thirds(7, {0, 0, 1.0});
  thirds.insert(thirds.end(), 14, {0, 0, 10.0});
  CHECK(fit_median(thirds).base == doctest::Approx(10.0).epsilon(0.02));
}

TEST_CASE("a small program counts as much as a large one") {
  std::vector<SizedSample> samples{{0, 0, 1}, {0, 0, 2}, {1000, 0, 1000}, {2000, 0, 2000}};
  CHECK(fit_median(samples).base < 2.01);
  CHECK(fit_median(samples).per_megabyte == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("what the load of a node costs is found") {
  std::vector<SizedSample> samples;
  for (double mb : {10.0, 100.0, 1000.0})
    for (double load : {0.1, 0.9, 2.0, 6.0, 11.0})
      samples.push_back({mb, 0, (0.2 + 0.01 * mb) * (load > 1 ? 1 + 0.4 * (load - 1) : 1), load});
  SizedCost c = fit_median(samples);
  CHECK(c.of_load == doctest::Approx(0.4));
  CHECK(c.at(100, 0) == doctest::Approx(1.2));
  CHECK(c.at(100, 0, 6) == doctest::Approx(3.6));
}

TEST_CASE("no part of a cost is negative, and what is not determined is zero") {
  std::vector<SizedSample> falling{{1, 1, 9}, {2, 2, 8}, {3, 3, 7}};
  SizedCost c = fit_median(falling);
  CHECK(c.per_megabyte >= 0);
  CHECK(c.per_stored_megabyte >= 0);
  CHECK(c.base == doctest::Approx(8).epsilon(0.02));
  std::vector<SizedSample> proportional{{1, 1, 2}, {2, 2, 4}};
  CHECK(fit_median(proportional).at(10, 10) == doctest::Approx(20));
  CHECK(fit_median({}).at(1, 1) == 0);
  std::vector<SizedSample> no_time{{1, 1, 0}};
  CHECK(fit_median(no_time).at(1, 1) == 0);
}
