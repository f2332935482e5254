// SPDX-License-Identifier: Apache-2.0
#include "schedule/steer/estimates.h"

#include <algorithm>
#include <cmath>

namespace ckpt::schedule {
namespace {

constexpr double kAlmostDone = 0.999;

}  // namespace

Ticks share_of(Ticks whole, double share) {
  return std::max<Ticks>(1, static_cast<Ticks>(std::ceil(static_cast<double>(whole) * share)));
}

double Estimates::left_of(const LiveJob &j) { return std::clamp(1 - j.done, 0.0, 1.0); }

Ticks Estimates::counts_from(const LiveJob &j) const {
  Ticks since = j.running->since;
  const bool restores = j.done > 0 && !j.running->slowdown;
  if (restores) since += real_cost(j.job, cluster_.classes[j.running->on].of).restore;
  return since;
}

double Estimates::done_by_now(const LiveJob &j) const {
  Ticks whole = j.run[j.running->on];
  auto pace = slowdowns_.find(j.id);
  double slowdown = j.running->slowdown.value_or(pace == slowdowns_.end() ? 1 : pace->second);
  double more = whole > 0 ? static_cast<double>(std::max<Ticks>(0, now_ - counts_from(j))) /
                                (static_cast<double>(whole) * slowdown)
                          : 0;
  return std::min(j.done + more, kAlmostDone);
}

// What is left of an overdue job is as much longer on slower nodes as its estimate is there:
// otherwise each node would look better than its own, and it would be moved again and again.
Ticks Estimates::left_on(const LiveJob &j, ClassIndex c) const {
  double done = done_by_now(j);
  if (done < kAlmostDone) return share_of(j.run[c], 1 - done);
  Ticks here = std::max<Ticks>(1, j.run[j.running->on]);
  return share_of(kOverdue, static_cast<double>(j.run[c]) / static_cast<double>(here));
}

double Estimates::seconds_left(const LiveJob &j) const {
  if (j.running->leaving) return 1;
  double done = done_by_now(j);
  return done < kAlmostDone ? (1 - done) * seconds_of(j.run[j.running->on]) : seconds_of(kOverdue);
}

double Estimates::planned_checkpoint(const LiveJob &j) const {
  return seconds_of(planned_cost(j, j.running->on).checkpoint);
}

Ticks Estimates::end_if_moved(const LiveJob &j, ClassIndex c) const {
  return now_ + planned_cost(j, j.running->on).checkpoint + planned_cost(j, c).restore +
         left_on(j, c);
}

}  // namespace ckpt::schedule
