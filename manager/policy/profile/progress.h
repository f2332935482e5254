// SPDX-License-Identifier: Apache-2.0
//
// The progress reports of programs, and what the Manager learns from them: the profile of the
// program's workload and its interference with other workloads.
#pragma once

#include "manager/policy/placement/interference.h"
#include "manager/policy/state.h"

namespace ckpt::manager {

class Progress {
 public:
  Progress(State &state, WorkloadProfiles &profiles, Interference &interference)
      : state_(state), profiles_(profiles), interference_(interference) {}

  void on(Program &p, const managed::to_manager::Workload &m);
  void on(Program &p, const managed::to_manager::Progress &m);
  // After each message of the program.
  void note_peak(Program &p);
  // The program ends; `peak`: the most memory that it had, as it reports; 0: it does not.
  void ended(Program &p, u64 peak);
  // Before each decision: what the profiles say of each program's memory and demand.
  void update_expectations();

 private:
  // The programs that run on the same GPU.
  struct Neighbours {
    u32 count = 0;
    ProfileIndex last = kNoProfile;  // the profile of the last of them
  };
  std::optional<Neighbours> neighbours_of(const Program &p) const;
  ProfileIndex profile_of(const Program &p);
  void expect(Program &p) const;
  bool has_shown_need(const Program &p) const;

  State &state_;
  WorkloadProfiles &profiles_;
  Interference &interference_;
};

}  // namespace ckpt::manager
