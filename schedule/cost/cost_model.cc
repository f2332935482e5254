// SPDX-License-Identifier: Apache-2.0
#include "schedule/cost/cost_model.h"

#include <algorithm>
#include <cmath>

namespace ckpt::schedule {
namespace {

struct Sums {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
};

Sums sums_of(std::span<const Point> points) {
  Sums s;
  for (const Point &p : points) {
    s.n += 1;
    s.x += p.x;
    s.y += p.y;
    s.xx += p.x * p.x;
    s.xy += p.x * p.y;
  }
  return s;
}

}  // namespace

Line fit_line(std::span<const Point> points) {
  if (points.empty()) return {};
  Sums s = sums_of(points);
  double spread = s.n * s.xx - s.x * s.x;
  Line constant{0, std::max(0.0, s.y / s.n)};
  // Relative to the sums: a spread below the rounding errors counts as zero.
  if (spread <= 1e-12 * s.n * s.xx) return constant;
  Line line;
  line.slope = (s.n * s.xy - s.x * s.y) / spread;
  line.base = (s.y - line.slope * s.x) / s.n;
  if (line.slope < 0) return constant;
  if (line.base < 0) return {s.xy / s.xx, 0};
  return line;
}

CostModel fit_costs(std::span<const CheckpointSample> checkpoints,
                    std::span<const RestoreSample> restores) {
  std::vector<Point> c, r;
  for (const CheckpointSample &s : checkpoints) c.push_back({s.megabytes, s.seconds - s.waited});
  for (const RestoreSample &s : restores) r.push_back({s.megabytes, s.seconds - s.compiled});
  return {fit_line(c), fit_line(r)};
}

double relative_error(double predicted, double measured) {
  return (predicted - measured) / measured;
}

double share_within(std::span<const double> errors, double limit) {
  if (errors.empty()) return 1;
  auto within =
      std::count_if(errors.begin(), errors.end(), [&](double e) { return std::abs(e) <= limit; });
  return static_cast<double>(within) / static_cast<double>(errors.size());
}

CostModel paper_cpu_costs() { return {{1.5e-2, 0.92}, {9.7e-3, 0.18}}; }
CostModel paper_gpu_costs() { return {{1.4e-2, 0.85}, {9.6e-3, 0.89}}; }

}  // namespace ckpt::schedule
