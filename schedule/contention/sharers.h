// SPDX-License-Identifier: Apache-2.0
//
// Jobs that share one node: when each of them starts and ends, beside the others.
//
// A job of several cores counts as that many tasks of the contention model with equal parts of its
// figures. HC's tasks have one core; this is our extension. Its run time without neighbours was
// measured with its own tasks side by side, so only what other jobs add to their slowdown counts.
//
// Jobs start in their order. One that needs more than is free waits for the jobs before it, and
// those after it wait for it.
//
// Cost: each start and end asks for the slowdown of all jobs that run then (see slowdown.h).
#pragma once

#include <span>
#include <vector>

#include "schedule/contention/timeline.h"

namespace ckpt::schedule {

// What a node has, or what a job takes of it.
struct Resources {
  unsigned cores = 1, gpus = 0;
  double megabytes = 0;  // of main memory

  bool fits_in(const Resources &room) const {
    return cores <= room.cores && gpus <= room.gpus && megabytes <= room.megabytes;
  }
};

struct Sharer {
  StageShares shares;  // of each of its cores
  Resources needs;
  double seconds = 0;    // of its run that are left, without neighbours
  bool running = false;  // it has its resources already
};

// The stages of one of the job's cores.
StageShares shares_of_core(const ContentionTask &job, unsigned cores, const Bandwidths &node);

// The slowdown of the job at `index`, if all of `jobs` run.
double slowdown_beside(std::span<const Sharer> jobs, size_t index, const Bandwidths &node);

// One span for each job, in seconds from now. Those that run already come first. The end of a job
// that needs more than the node has is infinite, as are those of the jobs after it.
std::vector<Span> share_node(std::span<const Sharer> jobs, const Resources &has,
                             const Bandwidths &node);

}  // namespace ckpt::schedule
