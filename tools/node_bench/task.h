// SPDX-License-Identifier: Apache-2.0
//
// The figures of a program in the contention model (schedule/contention/node.h), from runs of it
// on this node, alone: its run time, what it copies to and from devices, and the traffic between
// processors and memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "schedule/contention/node.h"

namespace ckpt::tools {

struct TaskOptions {
  std::vector<std::string> program;
  std::string name;                 // "": that of the executable
  std::string device;               // of ckpt-run; "": its default
  std::optional<double> memory_gb;  // given instead of measured
  std::string counter;              // "perf", "cachegrind"; "": perf where there is a counter
  u64 cache_bytes = 0;              // of cachegrind's last-level cache; 0: as this machine's
};

struct MeasuredTask {
  schedule::ContentionTask task;
  std::string counter;   // "perf", "cachegrind" or "given"
  double missed_gb = 0;  // cache misses, before what copies cause is taken off
};

// Runs the program once under ckpt-run, and a second time in cachegrind where that counts. Whether
// all can be measured is checked before the first run.
Result<MeasuredTask> measure_task(const TaskOptions &options);

// What remains of `missed_gb` (10^9 bytes) without the misses that `copied_gb` cause.
double memory_without_copies(double missed_gb, double copied_gb);

}  // namespace ckpt::tools
