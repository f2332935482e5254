// SPDX-License-Identifier: Apache-2.0
//
// A running program leaves so that a waiting one of a cohort (placement/cohort.h) takes its place:
//   - on a GPU with programs that leave its kernels' engine idle, for one that computes;
//   - in the end, for one that has longer to compute: so that the last programs end together, and
//     no GPU is idle while another one has several of them. Not if their moves would take more than
//     a small part of the difference.
// Only what is known decides: a program of unknown role or work stays.
#pragma once

#include <optional>

#include "manager/policy/eviction/eviction.h"
#include "manager/policy/placement/cohort.h"

namespace ckpt::manager {

class Exchange {
 public:
  Exchange(State &state, Eviction &eviction, const Placement &placement, const Work &work)
      : state_(state), eviction_(eviction), placement_(placement), work_(work) {}

  // At most one program leaves for each of the two reasons.
  void run(const Cohort::Members &members);

 private:
  Time unit() const;
  void evict(Program *p);
  Program *keeps_engine_idle(const Cohort::Members &members) const;
  Program *misfit_of(GpuIndex g, const Cohort::Members &members) const;
  bool makes_room(const Program &out, const Program &in) const;
  Program *nearer_to_end(const Cohort::Members &members) const;
  bool pays(const Program &out, const Program &in) const;
  const Program *longest(const Cohort::Members &members) const;
  std::optional<Time> left_on(GpuIndex g) const;
  bool is_settled(const Program &p, int times) const;

  State &state_;
  Eviction &eviction_;
  const Placement &placement_;
  const Work &work_;
};

}  // namespace ckpt::manager
