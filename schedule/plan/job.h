// SPDX-License-Identifier: Apache-2.0
//
// Jobs, resource classes and times, as the policies see them. Times are integers, so that the parts
// of a turnaround add up exactly.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "schedule/cost/cost_model.h"

namespace ckpt::schedule {

using Ticks = i64;  // milliseconds since the start of the simulation
constexpr Ticks kTicksPerSecond = 1000;

// 3 × 10^7 years, below Calendar::kForever. simulate() refuses jobs that take longer in a row.
constexpr double kMostTicks = 1e18;

// Rounded up: a cost must never be underestimated, or a job delays those before it (KS-2).
inline Ticks ticks_of(double seconds) {
  return static_cast<Ticks>(std::min(std::ceil(seconds * kTicksPerSecond - 1e-6), kMostTicks));
}
inline double seconds_of(Ticks t) { return static_cast<double>(t) / kTicksPerSecond; }

using ClassIndex = unsigned;

// Nodes of one kind.
struct ResourceClass {
  std::string name;
  unsigned nodes = 0;
  CostModel costs;  // with the storage that the class's images go to
};

struct Job {
  Ticks submit = 0;
  unsigned nodes = 1;
  float megabytes = 0;        // of its image, all nodes together
  float compile_seconds = 0;  // K of its restore
  float wait_seconds = 0;     // W of its checkpoint, for the work that its devices have queued
};

// The jobs in the order of their submission.
struct Workload {
  unsigned classes = 1;
  std::vector<Job> jobs;
  std::vector<Ticks>
      run;  // run time of job j on class c: run[j * classes + c]; 0: it cannot run there

  Ticks run_time(size_t job, ClassIndex c) const { return run[job * classes + c]; }
};

// What a move costs, in ticks.
struct MoveCost {
  Ticks checkpoint = 0, restore = 0;
};

}  // namespace ckpt::schedule
