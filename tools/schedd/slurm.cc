// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/slurm.h"

#include "tools/slurm_command.h"

namespace ckpt::tools {
Result<> Slurm::run(const std::vector<std::string> &argv) const {
  if (dry_run_) return {};
  CKPT_CHECK(slurm_command(argv));
  return {};
}

Result<std::vector<QueuedJob>> Slurm::jobs() const {
  CKPT_TRY(std::string text, slurm_command({"squeue", "--json"}));
  return parse_queue(text);
}

Result<std::vector<QueueNode>> Slurm::nodes() const {
  CKPT_TRY(std::string text, slurm_command({"scontrol", "show", "nodes", "--oneliner"}));
  return parse_nodes(text);
}

Result<> Slurm::update(u64 job, const std::vector<std::string> &fields) const {
  std::vector<std::string> argv = {"scontrol", "update", fmt::format("JobId={}", job)};
  argv.insert(argv.end(), fields.begin(), fields.end());
  return run(argv);
}

Result<> Slurm::start(u64 job, const std::vector<std::string> &nodes) const {
  return update(job, {"StartTime=now", fmt::format("ReqNodeList={}", fmt::join(nodes, ","))});
}

Result<> Slurm::hold_for(u64 job, i64 seconds) const {
  return update(job, {"ReqNodeList=", fmt::format("StartTime=now+{}", seconds)});
}

Result<> Slurm::give_back(u64 job, const Tag &tag) const {
  return update(job, {"ReqNodeList=", "StartTime=now+0", "Comment=" + text_of(tag)});
}

Result<> Slurm::release(u64 job) const {
  return run({"scontrol", "release", fmt::format("{}", job)});
}

Result<> Slurm::checkpoint(u64 job) const {
  return run({"scancel", "--batch", "--signal=USR2", fmt::format("{}", job)});
}

}  // namespace ckpt::tools
