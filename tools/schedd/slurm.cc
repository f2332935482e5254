// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/slurm.h"

#include "tools/session/job_comment.h"
#include "tools/slurm_command.h"

namespace ckpt::tools {
Result<std::vector<QueuedJob>> Slurm::jobs() const {
  CKPT_TRY(std::string text, slurm_command({"squeue", "--json"}));
  return parse_queue(text);
}

Result<std::vector<QueueNode>> Slurm::nodes() const {
  CKPT_TRY(std::string text, slurm_command({"scontrol", "show", "nodes", "--oneliner"}));
  return parse_nodes(text);
}

void Slurm::start(u64 job, const std::vector<std::string> &nodes) {
  updates_.set(job, {"StartTime=now", fmt::format("ReqNodeList={}", fmt::join(nodes, ","))});
}

void Slurm::hold_for(u64 job, i64 seconds) {
  updates_.set(job, {"ReqNodeList=", fmt::format("StartTime=now+{}", seconds)});
}

void Slurm::give_back(const QueuedJob &job, const Tag &tag) {
  const std::string note = job.comment.substr(without_note(job.comment).size());
  updates_.set(job.id, {"ReqNodeList=", "StartTime=now+0", "Comment=" + text_of(tag) + note});
}

void Slurm::release(u64 job) { updates_.release(job); }

std::map<u64, std::string> Slurm::change_jobs() {
  if (!dry_run_) return updates_.run();
  updates_ = {};
  return {};
}

Result<> Slurm::checkpoint(u64 job) const {
  if (dry_run_) return {};
  CKPT_CHECK(slurm_command({"scancel", "--batch", "--signal=USR2", fmt::format("{}", job)}));
  return {};
}

}  // namespace ckpt::tools
