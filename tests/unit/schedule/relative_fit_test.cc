// SPDX-License-Identifier: Apache-2.0
#include "schedule/cost/relative_fit.h"

#include <doctest/doctest.h>

#include <vector>

using namespace ckpt::schedule;

TEST_CASE("both sizes and the constant are found") {
  std::vector<SizedSample> samples;
  for (double mb : {10.0, 100.0, 1000.0})
    for (double share : {0.0, 0.3, 1.0})
      samples.push_back({mb, mb * share, 0.2 + 0.001 * mb + 0.01 * mb * share});
  SizedCost c = fit_relative(samples);
  CHECK(c.per_megabyte == doctest::Approx(0.001));
  CHECK(c.per_stored_megabyte == doctest::Approx(0.01));
  CHECK(c.base == doctest::Approx(0.2));
}

TEST_CASE("a small program counts as much as a large one") {
  // The middle of 1 and 2 with the least relative errors, whatever the large ones are.
  std::vector<SizedSample> samples{{0, 0, 1}, {0, 0, 2}, {1000, 0, 1000}, {2000, 0, 2000}};
  CHECK(fit_relative(samples).base < 1.5);
  CHECK(fit_relative(samples).per_megabyte == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("no part of a cost is negative, and what is not determined is zero") {
  std::vector<SizedSample> falling{{1, 1, 9}, {2, 2, 8}, {3, 3, 7}};
  SizedCost c = fit_relative(falling);
  CHECK(c.per_megabyte >= 0);
  CHECK(c.per_stored_megabyte >= 0);
  CHECK(c.base == doctest::Approx(7.85).epsilon(0.05));
  std::vector<SizedSample> proportional{{1, 1, 2}, {2, 2, 4}};
  CHECK(fit_relative(proportional).at(10, 10) == doctest::Approx(20));
  CHECK(fit_relative({}).at(1, 1) == 0);
  std::vector<SizedSample> no_time{{1, 1, 0}};
  CHECK(fit_relative(no_time).at(1, 1) == 0);
}
