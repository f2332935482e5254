// SPDX-License-Identifier: Apache-2.0
//
// What ckpt-sim simulates: the text of its options made into the values of schedule/.
#pragma once

#include "schedule/plan/policy.h"
#include "schedule/simulate/workload.h"
#include "schedule/trace/trace.h"

namespace ckpt::tools {

struct SimOptions {
  std::string policies = "MCT,MCTB,MCTM,MCTBM,WMCT", loads = "0.9", load_of = "all";
  std::string classes, sizes = "1-512", mix = "small", run_times = "uniform", arrivals = "more";
  std::string intervals = "poisson";
  std::string charge = "printed", regions = "before-start", storage = "shared";
  std::string swf, gavel, pods, csv, gpu_nodes;
  u64 jobs = 100'000, seed = 1;
  double max_minutes = 1440, min_speedup = 1, max_speedup = 10, memory_per_node = 4, mix_ratio = 4;
  double cost = 25, compile = 0, wait = 0, overestimate = 1, waste_weight = 0.05;
  double seconds_per_step = 0.1;
  bool memory_in_bytes = false, whole_last_region = false, free_final_restore = false;
  bool as_json = false;
  std::string gantt, sweep, outcome;
  // Contention (tools/sim/contention.h).
  std::string task_sets, tasks, node, watts = "120,25,70";
  size_t task_count = 480;
};

// Everything but the jobs, checked.
struct Experiment {
  std::vector<schedule::PolicyName> policies;
  std::vector<double> loads;  // one, if the jobs are of a log
  std::vector<schedule::ResourceClass> classes;
  std::vector<double> speeds;  // of a node of each class
  schedule::PolicyOptions policy;
  bool from_log = false;
};

Result<Experiment> experiment_of(const SimOptions &o);

struct Jobs {
  schedule::Workload workload;
  size_t left_out = 0;
};

// Reads the log, or makes jobs at that load.
Result<Jobs> jobs_of(const SimOptions &o, const Experiment &e, double load);

}  // namespace ckpt::tools
