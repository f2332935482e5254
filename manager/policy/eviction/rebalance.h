// SPDX-License-Identifier: Apache-2.0
//
// When a GPU becomes idle while programs share another one, one of them moves to it: two GPUs are
// always faster than a shared one. The program leaves as any victim does, and placement finds the
// idle GPU for it.
#pragma once

#include "manager/policy/eviction/eviction.h"
#include "manager/policy/placement/placement.h"

namespace ckpt::manager {

class Rebalance {
 public:
  Rebalance(State &state, Eviction &eviction, const Placement &placement)
      : state_(state), eviction_(eviction), placement_(placement) {}

  // Moves at most one program.
  void run();
  // `p` is about to leave for an idle GPU: there still is one.
  bool still_useful(const Program &p) const;
  // A program may move when more time has passed. Valid between decisions, too.
  bool is_possible() const;

 private:
  bool is_idle(GpuIndex g) const;
  Program *choose(GpuIndex idle) const;
  bool shares(const Program &p) const;
  bool may_move(const Program &p, GpuIndex to) const;
  bool could_move(const Program &p, GpuIndex to) const;

  State &state_;
  Eviction &eviction_;
  const Placement &placement_;
};

}  // namespace ckpt::manager
