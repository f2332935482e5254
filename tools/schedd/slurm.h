// SPDX-License-Identifier: Apache-2.0
//
// Slurm's commands, as ckpt-schedd uses them. All of them are allowed to an operator, and to the
// owner of a job for that job.
#pragma once

#include <optional>

#include "tools/schedd/laps.h"
#include "tools/schedd/queue.h"
#include "tools/schedd/tag.h"
#include "tools/schedd/updates.h"

namespace ckpt::tools {

class Slurm {
 public:
  explicit Slurm(bool dry_run) : dry_run_(dry_run) {}

  Result<std::vector<QueuedJob>> jobs(Laps &laps);
  Result<std::vector<QueueNode>> nodes(Laps &laps) const;

  // The next four wait for change_jobs(). Of the first three, the last call for a job counts.

  // Lets a waiting job start at once on these nodes and on no others.
  void start(u64 job, const std::vector<std::string> &nodes);
  // Keeps a waiting job from starting for `seconds`, after which Slurm may start it anywhere.
  void hold_for(u64 job, i64 seconds);
  // Lets Slurm start a waiting job anywhere, and says so in its comment, of which
  // a note (job_comment.h) stays.
  void give_back(const QueuedJob &job, const Tag &tag);
  // A job that has returned 86 is held indefinitely; after this call it waits as after hold_for().
  void release(u64 job);

  // By job, why Slurm has refused a change.
  std::map<u64, std::string> change_jobs();

  // Tells a running job to write an image and to return 86. At once.
  Result<> checkpoint(u64 job) const;

 private:
  const bool dry_run_;
  std::optional<bool> with_excluded_;  // knows_exclusions(), once squeue was asked for its version
  Updates updates_;
};

}  // namespace ckpt::tools
