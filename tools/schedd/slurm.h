// SPDX-License-Identifier: Apache-2.0
//
// Slurm's commands, as ckpt-schedd uses them. All of them are allowed to an operator, and to the
// owner of a job for that job.
#pragma once

#include "tools/schedd/queue.h"
#include "tools/schedd/tag.h"

namespace ckpt::tools {

class Slurm {
 public:
  explicit Slurm(bool dry_run) : dry_run_(dry_run) {}

  Result<std::vector<QueuedJob>> jobs() const;
  Result<std::vector<QueueNode>> nodes() const;

  // Lets a waiting job start at once on these nodes and on no others.
  Result<> start(u64 job, const std::vector<std::string> &nodes) const;
  // Keeps a waiting job from starting for `seconds`, after which Slurm may start it anywhere.
  Result<> hold_for(u64 job, i64 seconds) const;
  // Lets Slurm start a waiting job anywhere, and says so in its comment.
  Result<> give_back(u64 job, const Tag &tag) const;
  // A job that has returned 86 is held indefinitely; after this call it waits as after hold_for().
  Result<> release(u64 job) const;
  // Tells a running job to write an image and to return 86.
  Result<> checkpoint(u64 job) const;

 private:
  Result<> run(const std::vector<std::string> &argv) const;
  Result<> update(u64 job, const std::vector<std::string> &fields) const;

  const bool dry_run_;
};

}  // namespace ckpt::tools
