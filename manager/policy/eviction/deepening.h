// SPDX-License-Identifier: Apache-2.0
//
// An evicted program need not give back its context, which would take longer than to copy most
// contents. It does so only where the room is needed: for a program that asks for memory there, or
// for one that waits for that GPU. Until then its stay counts as used, and as what could be had
// (GpuAccount::staying).
#pragma once

#include <limits>

#include "manager/policy/placement/placement.h"

namespace ckpt::manager {

class Deepening {
 public:
  Deepening(State &state, Placement &placement) : state_(state), placement_(placement) {}

  // For all programs that still wait in this decision.
  void run(const std::vector<Program *> &waiting);

 private:
  static constexpr u64 kEverything = std::numeric_limits<u64>::max();
  void make_room_for(const Program &blocked);
  void find_room_for(const Program &waiting);
  bool make_room_on(const Program &waiting, GpuIndex g);
  bool clear_for(const Program &alone, GpuIndex g);
  void deepen_own(const Program &waiting, GpuIndex g);
  // Until `bytes` are free there or will be, or nothing stays there but what `but_not` has, which
  // would need it again.
  void deepen(GpuIndex g, u64 bytes, const Program *but_not = nullptr);

  State &state_;
  Placement &placement_;
};

}  // namespace ckpt::manager
