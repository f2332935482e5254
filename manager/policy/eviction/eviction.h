// SPDX-License-Identifier: Apache-2.0
//
// Which program leaves its GPU when memory runs short, and how. policy.h explains the algorithm.
#pragma once

#include <functional>

#include "manager/policy/accounting/credit.h"
#include "manager/policy/state.h"

namespace ckpt::manager {

class Eviction {
 public:
  Eviction(State &state, const WorkloadProfiles &profiles, Credits &credits)
      : state_(state), profiles_(profiles), credits_(credits) {}

  // True if it has not refused too often, and the host has room for its contents.
  bool can_leave(const Program &p) const;
  // Tells a running program to leave: the signal of MC-16, which it answers with Query.
  // With `memory_only`, its context stays.
  void signal(Program &p, bool memory_only = false);
  // Tells a program to leave because its own request cannot be granted. It waits for an answer, so
  // no signal is needed.
  void suspend(Program &p, bool memory_only = false);
  // The answer to Query, if the program still has to leave.
  void send_suspend(Program &p);

  // `p` asks for `bytes` that are not free on its GPU: evicts one program, or none if enough is
  // about to become free or no program can leave.
  void make_room(Program &p, u64 bytes);
  // The time slices on `g` are over, where a program has waited too long for that GPU.
  void end_time_slices(const Program &starving, GpuIndex g);
  // `p` waits for a GPU: if there would be room for it on `g` without the guests, as many of these
  // leave as it takes. False: there would not.
  bool send_guests_away(const Program &p, GpuIndex g);

  // Programs that have not left in time (Settings::eviction_timeout). Others no longer wait for
  // them.
  void note_unresponsive();
  // The evicted and unresponsive program `p` would be resumed before `other`, the program that it
  // should leave for, so its eviction would be useless.
  static bool resumes_first(const Program &p, const Program &other);

 private:
  Evicting &begin(Program &p, bool memory_only);
  // It can leave its context behind, and `missing` bytes become free nevertheless.
  bool may_leave_context(const Program &p, u64 missing) const;
  Program *cheapest(const Program &asking, u64 bytes) const;
  Program *longest_resident(const Program &starving, GpuIndex g) const;
  bool is_guest_to_leave(const Program &p, GpuIndex g) const;
  Program *guest_to_leave(GpuIndex g, u64 missing) const;
  // Signals programs on `g` that `next` chooses, until there is room for `p` or it chooses none.
  void leave_for(const Program &p, GpuIndex g, const std::function<Program *(u64)> &next);
  bool is_spared(const Program &p) const;
  void note_unresponsive(Evicted &evicted);

  State &state_;
  const WorkloadProfiles &profiles_;
  Credits &credits_;
};

}  // namespace ckpt::manager
