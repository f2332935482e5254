// SPDX-License-Identifier: Apache-2.0
//
// Programs that have arrived together. Between them the order of arrival says nothing, so that one
// goes next which a GPU has most use for.
//
// The problem. A hundred programs are started at once. In order of arrival, a program that mostly
// copies is often alone, or with its like, on a GPU whose kernels' engine then is idle, because the
// next one in order does not fit beside it. In the end the last programs leave some GPUs early.
//
// An example. One that computes (30 of 72 MiB) is on a GPU. Three wait: A computes (30), B copies
// (36), C copies (22).
//     B joins: it keeps the bus busy, and needs more room than C, which fits in more places.
//     The one that computes ends. A joins, because without it B would be alone. Then C waits, as B
//     copies already, until B ends.
//
// The algorithm. A cohort is the waiting programs of one priority that arrived within
// Settings::starvation_limit of the first one in order. Of the GPUs, that with the fewest programs
// chooses, by the roles of its programs (Role): first one that computes, then one that copies, and
// nothing more while an end is not near. A workload that is unknown goes where one that computes
// is, one at a time, so that it becomes known early and does no harm. Among equals the one goes
// first that needs most memory; among the last ones, the one that has most to compute, so that the
// GPUs end together. Programs that need a GPU for themselves follow each other on one that is
// empty.
//
// The contention model of a node (Settings::links) judges copies in another way, so that there are
// no cohorts with it.
//
// Fairness. A member is passed over only by other members, and no program joins a cohort later than
// Settings::starvation_limit after its first one, so each is passed over by finitely many. A
// program that is kept away from a GPU because that is busy enters as soon as another one ends
// there.
//
// Cost. At most kMostMembers programs for each GPU; nothing is kept between decisions.
#pragma once

#include <optional>
#include <span>

#include "manager/policy/placement/placement.h"
#include "manager/policy/profile/work.h"

namespace ckpt::manager {

class Cohort {
 public:
  using Members = std::vector<Program *>;

  Cohort(State &state, Placement &placement, const Work &work)
      : state_(state), placement_(placement), work_(work) {}

  // Of the waiting programs, which are in order; empty: that order holds.
  Members members(std::span<Program *const> waiting) const;
  struct Place {
    Program *program = nullptr;
    GpuIndex gpu = kNoGpu;
  };
  // The next one to be placed; no value: none may go anywhere now.
  std::optional<Place> next(const Members &members);

 private:
  bool is_ready(const Program &p) const;
  std::optional<Place> choose(const Members &members);
  Program *best_on(GpuIndex g, const Members &members);
  bool is_new(const Program &p) const;
  bool is_busy(GpuIndex g) const;
  bool keeps_busy(const Program &p) const;

  State &state_;
  Placement &placement_;
  const Work &work_;
};

}  // namespace ckpt::manager
