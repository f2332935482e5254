// SPDX-License-Identifier: Apache-2.0
//
// A job that ckpt-schedd plans: what Slurm, its owner and the daemon's record say of it.
#pragma once

#include "tools/schedd/queue.h"
#include "tools/schedd/records.h"
#include "tools/schedd/tag.h"

namespace ckpt::tools {

bool is_running(const QueuedJob &j);
// Also in the states in which a job is that has returned 86.
bool is_waiting(const QueuedJob &j);

struct Steered {
  QueuedJob job;
  Tag tag;
  Record record;

  // It has nodes, and Slurm is about to start it there. Its owner can change the nodes that it
  // requires.
  bool is_placed(i64 now) const;
  // It has got nodes, and Slurm has not started it there in time.
  bool start_has_failed(i64 now) const;
  // Slurm would not start it now, wherever it is placed: it is held, waits for another job, or its
  // owner has too many. Nodes that are kept for it would be lost for others.
  bool is_blocked() const;
  // The nodes that it has, or will have.
  const std::vector<std::string> &nodes() const { return is_running(job) ? job.on : job.required; }
};

// `steered` is in the order of numbers.
Steered &steered_job(u64 job, std::vector<Steered> &steered);

}  // namespace ckpt::tools
