// SPDX-License-Identifier: Apache-2.0
//
// How much of a job is done, and how long the rest takes on each class, for one call of steer().
#pragma once

#include <unordered_map>

#include "schedule/steer/steer.h"

namespace ckpt::schedule {

// A job that runs longer than was estimated is assumed to end within this time.
constexpr Ticks kOverdue = 60 * kTicksPerSecond;

Ticks share_of(Ticks whole, double share);

class Estimates {
 public:
  // `cluster` and `policy` must outlive this object.
  Estimates(Ticks now, const Cluster &cluster, const Policy &policy)
      : now_(now), cluster_(cluster), policy_(policy) {}

  // Of a job that shares its node, if its LiveRun says none.
  void set_slowdown(u64 job, double slowdown) { slowdowns_[job] = slowdown; }

  // Of a job that waits.
  static double left_of(const LiveJob &j);
  // The begin of the time in which a running job has done more than LiveJob::done.
  Ticks counts_from(const LiveJob &j) const;
  // The share of the whole job that is done by now.
  double done_by_now(const LiveJob &j) const;
  Ticks left_on(const LiveJob &j, ClassIndex c) const;
  // Of a running job that shares its node.
  double seconds_left(const LiveJob &j) const;
  double planned_checkpoint(const LiveJob &j) const;  // in seconds
  // When the job would end on another class, if it were moved now.
  Ticks end_if_moved(const LiveJob &j, ClassIndex c) const;

 private:
  MoveCost planned_cost(const LiveJob &j, ClassIndex c) const {
    return policy_.planned_cost(j.job, cluster_.classes[c].of);
  }

  const Ticks now_;
  const Cluster &cluster_;
  const Policy &policy_;
  std::unordered_map<u64, double> slowdowns_;
};

}  // namespace ckpt::schedule
