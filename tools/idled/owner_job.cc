// SPDX-License-Identifier: Apache-2.0
#include "tools/idled/owner_job.h"

#include "tools/slurm_command.h"

namespace ckpt::tools {

// The numbers of this account's jobs for this node that hold it or are to hold it.
Result<std::string> OwnerJob::jobs() const {
  return slurm_command({"squeue", "--me", "--noheader", "--name=" + name(),
                        "--states=PENDING,CONFIGURING,RUNNING", "--format=%i"});
}

Result<> OwnerJob::set(bool busy, const std::string &why) const {
  CKPT_TRY(std::string there, jobs());
  if (busy == !there.empty()) return {};
  if (!busy) {
    CKPT_CHECK(slurm_command({"scancel", "--me", "--name=" + name()}));
    return {};
  }
  CKPT_CHECK(
      slurm_command({"sbatch", "--parsable", "--job-name=" + name(),
                     "--partition=" + options_.partition, "--nodelist=" + options_.node,
                     "--exclusive", "--mem=0", "--no-requeue", "--output=/dev/null", "--chdir=/",
                     "--export=NONE", "--comment=owner: " + why, "--wrap=exec sleep infinity"}));
  return {};
}

}  // namespace ckpt::tools
