// SPDX-License-Identifier: Apache-2.0
//
// The order of the waiting programs, and the one of them that starves. First fit alone would let
// small programs overtake a large one again and again. So one of the programs that have waited
// longer than Settings::starvation_limit is the starving program, until it is placed: a GPU is
// reserved for it, and the memory that becomes free there, and an assignment (MC-18), are kept for
// it.
#pragma once

#include "manager/policy/placement/placement.h"
#include "manager/policy/state.h"

namespace ckpt::manager {

class Starvation {
 public:
  Starvation(State &state, const Placement &placement) : state_(state), placement_(placement) {}

  // The waiting programs in the order in which they are served: a program that keeps its place, the
  // starving program, then by priority, then by arrival. Also makes the reservation.
  std::vector<Program *> waiting_in_order();

 private:
  static void sort(std::vector<Program *> &waiting, const Program *starving);
  Program *choose(const std::vector<Program *> &waiting) const;
  void reserve(Program &starving);
  GpuIndex best_gpu(const Program &starving) const;
  u64 missing(const Program &starving, GpuIndex g) const;

  State &state_;
  const Placement &placement_;
};

}  // namespace ckpt::manager
