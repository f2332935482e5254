// SPDX-License-Identifier: Apache-2.0
#include "schedule/cost/cost_model.h"

#include <doctest/doctest.h>

using namespace ckpt::schedule;

TEST_CASE("a line is fitted by least squares") {
  std::vector<Point> points = {{100, 2.5}, {200, 4.0}, {1000, 16.0}};
  Line line = fit_line(points);
  CHECK(line.slope == doctest::Approx(0.015));
  CHECK(line.base == doctest::Approx(1.0));
  points.push_back({550, 9.25 + 1});  // a mean of x: it only lifts the line
  points.push_back({550, 9.25 - 1});
  CHECK(fit_line(points).at(550) == doctest::Approx(9.25));
}

TEST_CASE("a fitted cost is never negative") {
  CHECK(fit_line({}).at(100) == 0);
  std::vector<Point> same = {{100, 2}, {100, 4}};
  CHECK(fit_line(same).at(700) == doctest::Approx(3));
  std::vector<Point> falling = {{100, 5}, {200, 3}};
  CHECK(fit_line(falling).slope == 0);
  CHECK(fit_line(falling).base == doctest::Approx(4));
  std::vector<Point> steep = {{100, 0}, {200, 2}};
  CHECK(fit_line(steep).base == 0);
  CHECK(fit_line(steep).at(10) > 0);
}

TEST_CASE("what a checkpoint waited for does not distort the fit") {
  std::vector<CheckpointSample> checkpoints = {{100, 2, 0}, {200, 53, 50}, {300, 4, 0}};
  std::vector<RestoreSample> restores = {{100, 1, 0}, {300, 12, 9}};
  CostModel m = fit_costs(checkpoints, restores);
  CHECK(m.checkpoint_seconds(400) == doctest::Approx(5));
  CHECK(m.checkpoint_seconds(400, 7) == doctest::Approx(12));
  CHECK(m.restore_seconds(200, 2) == doctest::Approx(4));
}

TEST_CASE("the distribution of errors as KS-4 reports it") {
  CHECK(relative_error(15, 10) == doctest::Approx(0.5));
  std::vector<double> errors = {0.1, -0.2, 0.4, -0.9};
  CHECK(share_within(errors, 0.33) == doctest::Approx(0.5));
  CHECK(share_within(errors, 1) == 1);
  CHECK(share_within({}, 0) == 1);
}

TEST_CASE("the paper's constants cost 24 to 25 s for each GB") {
  for (const CostModel &m : {paper_cpu_costs(), paper_gpu_costs()}) {
    double each = 1024 * (m.checkpoint.slope + m.restore.slope);
    CHECK(each > 24);
    CHECK(each < 25.5);
  }
}
