// SPDX-License-Identifier: Apache-2.0
//
// Synthetic workloads (KS-5.5).
#pragma once

#include "schedule/plan/job.h"

namespace ckpt::schedule {

// The capacity of which the load is a share. The paper does not say it, and the results depend on
// it above all ([?28]).
enum class LoadOf : u8 {
  Fastest,  // of the nodes of the fastest class, on which every job's work is measured
  All,      // of all nodes, each of which works at its own speed
  Mean,     // of all nodes, if each job took the mean of its run times everywhere
  Slowest,  // of the nodes of the slowest class
};

// The time between two submissions: a Poisson process, or uniform from 0 to twice the mean.
enum class Intervals : u8 { Poisson, Uniform };

// The mean time between two submissions, with W the mean work of a job, P the nodes and L the load
// ([?28]).
enum class Arrivals : u8 {
  MoreWithLoad,  // W / (P L)
  Printed,       // W / P times L: jobs come more rarely at a higher load
};

// Neither is given in the paper ([?29]).
enum class RunTimes : u8 { Uniform, LogUniform };  // from 0, or from a second
enum class Mix : u8 {
  Equal,      // each number of nodes is equally likely
  MoreSmall,  // each is more likely than the next larger one, by mix_ratio
  MoreLarge,  // each is less likely than the next larger one
};

// By default what comes nearest to the paper of all definitions that were tried and have its order
// of policies (bench/sched/definitions).
struct SyntheticOptions {
  size_t jobs = 100'000;
  u64 seed = 1;
  double load = 0.9;
  LoadOf load_of = LoadOf::All;
  Arrivals arrivals = Arrivals::MoreWithLoad;
  Intervals intervals = Intervals::Poisson;
  unsigned min_nodes = 1, max_nodes = 512;  // powers of two
  Mix mix = Mix::MoreSmall;
  double mix_ratio = 4;
  double max_minutes = 1440;  // on the slowest class
  RunTimes run_times = RunTimes::Uniform;
  double min_speedup = 1, max_speedup = 10;  // of the fastest class; uniform
  double max_gb_per_node = 4;                // uniform from 0
  double compile_seconds = 0, wait_seconds = 0;
};

// For two classes: 0 is the fast one, 1 the slow one. The same options give the same jobs on every
// machine.
Workload synthetic_workload(const SyntheticOptions &options, unsigned fast_nodes,
                            unsigned slow_nodes);

}  // namespace ckpt::schedule
