// SPDX-License-Identifier: Apache-2.0
//
// Logs of real clusters as workloads. A log is untrusted text: each error names its line, and the
// values of a line are bounded. Records that no simulation can use (for example, a job without a
// run time) are left out and counted.
#pragma once

#include <string_view>

#include "common/base/result.h"
#include "schedule/plan/job.h"

namespace ckpt::schedule {

struct TraceJob {
  double submit = 0;   // seconds
  double seconds = 0;  // run time on a node of speed 1
  unsigned nodes = 1;  // or processors, or GPUs, whatever the log counts
  double megabytes = 0;
  std::string kinds;  // names of the classes on which it may run, separated by '|'; empty: all
};

struct Trace {
  std::vector<TraceJob> jobs;
  size_t left_out = 0;
};

struct TraceOptions {
  // The memory, in MB per node, of jobs for which the log has none.
  double megabytes_per_node = 2048;
  // SWF's columns 7 and 10: kilobytes a processor, as the format says; or bytes of the whole job,
  // as some archives write.
  bool memory_in_bytes = false;
  // Gavel's traces count steps, and their length depends on the model and the GPU.
  double seconds_per_step = 0.1;
};

// Standard Workload Format, version 2.2: 18 columns a line, more are ignored.
Result<Trace> read_swf(std::string_view text, const TraceOptions &options);
// Gavel: 7, 10 or 11 columns, separated by tabs, with steps, seconds of arrival and GPUs.
Result<Trace> read_gavel(std::string_view text, const TraceOptions &options);
// Comma-separated values under a header: submit and seconds, and if they are there nodes, megabytes
// and classes (names separated by '|').
Result<Trace> read_jobs_csv(std::string_view text, const TraceOptions &options);
// Alibaba's gpu-v2023: a list of pods, with a header that names the columns. Pods without a GPU are
// left out; one that uses a part of a GPU gets a whole one.
Result<Trace> read_pods(std::string_view text, const TraceOptions &options);

// Its list of nodes: one class for each model, with as many nodes as there are GPUs.
Result<std::vector<ResourceClass>> read_gpu_nodes(std::string_view text);

// `speeds`: of a node of each class, at which run times are divided. Sorted by the time of
// submission, which starts at 0.
Workload workload_of(Trace trace, const std::vector<ResourceClass> &classes,
                     const std::vector<double> &speeds);

}  // namespace ckpt::schedule
