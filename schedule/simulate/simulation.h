// SPDX-License-Identifier: Apache-2.0
//
// Runs a workload under a policy: each job is planned when it is submitted, and what really happens
// follows from the plan and the real costs. If a plan reserved too much time, the rest is released
// when the job ends.
//
// Cost: see Calendar and Policy; memory grows with the jobs (about 200 bytes each).
#pragma once

#include "common/base/result.h"
#include "schedule/plan/policy.h"

namespace ckpt::schedule {

// The parts of a job's turnaround, which add up to it exactly.
struct JobResult {
  Ticks start = 0, end = 0;
  Ticks execution = 0;
  Ticks migration = 0;  // in checkpoints and restores
  Ticks wait_a = 0;     // while some class had enough idle nodes
  Ticks wait_b = 0;     // while none had
  u32 moves = 0;

  Ticks turnaround(const Job &job) const { return end - job.submit; }
};

struct RanPiece {
  size_t job;
  Piece piece;
};

struct Outcome {
  std::vector<JobResult> jobs;
  std::vector<RanPiece> pieces;  // in no order
  size_t impossible = 0;         // jobs that fit on no class; their results are zero
};

// Fails if the jobs take longer than Ticks can count. Otherwise it fails only if the parts of a
// turnaround do not add up, or if a node would be used twice: these are defects of the policy or of
// this program, which no option can cause.
Result<Outcome> simulate(const Workload &w, const std::vector<ResourceClass> &classes,
                         PolicyName policy, const PolicyOptions &options);

}  // namespace ckpt::schedule
