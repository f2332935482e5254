// SPDX-License-Identifier: Apache-2.0
//
// A GPU for one program. Code with kernels that allocate from the device heap makes a program
// exclusive: what they allocate is invisible, so the program cannot be evicted from then on, and
// must have its GPU for itself (MC-15 to MC-17). The other programs leave that GPU first.
#pragma once

#include "manager/policy/eviction/eviction.h"
#include "manager/policy/placement/placement.h"

namespace ckpt::manager {

class Exclusivity {
 public:
  Exclusivity(State &state, Eviction &eviction, Placement &placement)
      : state_(state), eviction_(eviction), placement_(placement) {}

  // The running program `p` may load such code now.
  bool is_alone(const Program &p) const;
  // It may not yet: the others of its GPU leave, or `p` itself, for an empty GPU.
  void make_alone(Program &p);
  // Clears a GPU for the waiting program `p`.
  void clear_gpu(Program &p);

 private:
  bool may_clear_own(const Program &p) const;
  GpuIndex other_empty_gpu(const Program &p);
  GpuIndex cheapest_to_clear(const Program &p) const;
  std::optional<u64> cost_to_clear(GpuIndex g, const Program &p) const;
  void evict_others(Program &exclusive);

  State &state_;
  Eviction &eviction_;
  Placement &placement_;
};

}  // namespace ckpt::manager
