// SPDX-License-Identifier: Apache-2.0
//
// The plans that are possible for one job at one moment; policies choose among them.
#pragma once

#include <optional>
#include <span>

#include "schedule/plan/policy.h"

namespace ckpt::schedule {

// Where and when a job begins that then runs to its end.
struct WholeRun {
  ClassIndex on = 0;
  Ticks at = 0;
};

// Which idle intervals a job may use before its start.
struct IdleKinds {
  bool holes = false;          // before reservations, so the job must leave them again
  bool other_classes = false;  // of classes other than the one where it starts
};

class Planner {
 public:
  // `costs`: of a move, by class. All must outlive the planner.
  Planner(const Workload &w, size_t job, Ticks now, const Cluster &cluster,
          std::span<const MoveCost> costs, const PolicyOptions &options);

  // MCT's choice: the class on which the job ends first if it starts after all that is planned
  // there. Nothing if it fits on no class.
  std::optional<WholeRun> earliest_completion() const;
  Plan whole(const WholeRun &start) const;
  // The first idle interval that is long enough for the whole job, on the class where it ends
  // first.
  Plan whole_in_idle() const;
  // KS-5.4: steps 2 to 6, and step 7 for what is left.
  Plan with_idle_pieces(const WholeRun &start, IdleKinds kinds) const;
  // Of all of the above, the plan that ends first when `weight` times its waste is added.
  Plan least_wasteful(const WholeRun &start, double weight) const;

 private:
  struct Region {
    ClassIndex on;
    Interval when;
  };
  bool may_use(ClassIndex c, const WholeRun &start, IdleKinds kinds) const;
  double work_left(ClassIndex c, double left) const;
  Ticks shortest_use(ClassIndex c, bool first, double left) const;
  Ticks skip_useless(Ticks from, const WholeRun &start, IdleKinds kinds, bool first,
                     double left) const;
  Piece piece_in(const Region &region, bool first, double left) const;
  Plan finished_at(const WholeRun &start, Plan pieces, double done) const;
  std::optional<Region> next_region(Ticks from, const WholeRun &start, IdleKinds kinds) const;
  std::optional<Interval> idle_on(ClassIndex c, Ticks from, const WholeRun &start,
                                  IdleKinds kinds) const;
  Ticks waits_until(ClassIndex c) const;
  bool fits(ClassIndex c) const;
  Ticks run_on(ClassIndex c) const { return w_.run_time(job_, c); }
  Ticks fastest_run() const;
  double waste_of(const Plan &plan) const;

  const Workload &w_;
  const size_t job_;
  const Ticks now_;
  const Cluster &cluster_;
  const std::span<const MoveCost> costs_;
  const PolicyOptions options_;
};

}  // namespace ckpt::schedule
