// SPDX-License-Identifier: Apache-2.0
//
// How long the kernels of programs run, as the driver reports it: what a program still has to
// compute, if it behaves like earlier runs, and which workloads leave the kernels' engine idle. A
// driver that reports nothing leaves both unknown.
#pragma once

#include <span>
#include <utility>

#include "manager/policy/state.h"

namespace ckpt::manager {

// The kernels of a program ran for that long.
using KernelTime = std::pair<ProgramId, Time>;

class Work {
 public:
  Work(State &state, WorkloadProfiles &profiles) : state_(state), profiles_(profiles) {}

  // Before measured(), for each program that has run kernels since the last one.
  void computed(Time now, Program &p, Time kernels);
  // All of them were told.
  void measured(Time now);

  // The time of its kernels until it ends; no value: unknown, or it is overdue.
  std::optional<Time> left(const Program &p) const;
  // The driver has reported kernels of a program of its workload.
  bool is_sampled(const Program &p) const;
  // It runs for longer than earlier runs.
  bool overdue(const Program &p) const;

 private:
  void observe(GpuIndex g, Time kernels, Time span);

  State &state_;
  WorkloadProfiles &profiles_;
  struct Sample {
    Time kernels{0};
    u64 occupancy = 0;  // the GPU's, at the last measurement
  };
  std::vector<Sample> samples_;  // by GPU
  Time last_{0};
};

}  // namespace ckpt::manager
