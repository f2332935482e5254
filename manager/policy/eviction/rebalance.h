// SPDX-License-Identifier: Apache-2.0
//
// When a GPU becomes idle while programs share another one, one of them moves to it: two GPUs are
// always faster than a shared one. The program leaves as any victim does, and placement finds the
// idle GPU for it.
#pragma once

#include "manager/policy/eviction/eviction.h"
#include "manager/policy/placement/placement.h"
#include "manager/policy/profile/work.h"

namespace ckpt::manager {

class Rebalance {
 public:
  Rebalance(State &state, Eviction &eviction, const Placement &placement, const Work &work)
      : state_(state), eviction_(eviction), placement_(placement), work_(work) {}

  // Moves at most one program.
  void run();
  // `p` is about to leave for an idle GPU: there still is one.
  bool still_useful(const Program &p) const;
  // A program may move when more time has passed. Valid between decisions, too.
  bool is_possible() const;

 private:
  bool is_idle(GpuIndex g) const;
  Program *choose(GpuIndex idle) const;
  Program *choose_by_work(GpuIndex idle) const;
  std::optional<Time> left_on(GpuIndex g) const;
  bool has_room(const Program &p, GpuIndex to) const;
  bool shares(const Program &p) const;
  bool may_move(const Program &p, GpuIndex to) const;
  bool could_move(const Program &p, GpuIndex to) const;

  State &state_;
  Eviction &eviction_;
  const Placement &placement_;
  const Work &work_;
};

}  // namespace ckpt::manager
