// SPDX-License-Identifier: Apache-2.0
//
// How Slurm learns that a machine is busy: the owner is a job. While the machine is busy, a job of
// ckpt-idled's account that asks for the whole node is in a partition that preempts those of
// guests. So Slurm itself sends guests their signal, kills those that have not ended after the
// grace time, and starts no guest there. The alternatives need more rights and do less: only an
// administrator may drain a node or change its features, and neither signals the jobs there
// (scontrol(1)).
#pragma once

#include <string>

#include "common/base/result.h"

namespace ckpt::tools {

struct OwnerJobOptions {
  std::string node, partition;
};

class OwnerJob {
 public:
  explicit OwnerJob(OwnerJobOptions options) : options_(std::move(options)) {}

  // Makes Slurm's state agree with `busy`: submits the job unless there is one, or cancels all such
  // jobs. `why` is the new job's comment.
  Result<> set(bool busy, const std::string &why) const;

 private:
  Result<std::string> jobs() const;
  std::string name() const { return "ckpt-owner-" + options_.node; }

  OwnerJobOptions options_;
};

}  // namespace ckpt::tools
