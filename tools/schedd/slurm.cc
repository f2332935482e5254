// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/slurm.h"

#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

// timeout(1): Slurm's commands wait for minutes if the controller does not answer.
std::vector<std::string> bounded(std::vector<std::string> argv) {
  argv.insert(argv.begin(), {"timeout", "20"});
  return argv;
}

Result<std::string> output_of(const std::vector<std::string> &argv) {
  CKPT_TRY(CommandResult r, run_command(bounded(argv), ""));
  if (r.exit_code == 0) return r.output;
  return fail_with_hint(fmt::format("{} returned {}", fmt::join(argv, " "), r.exit_code),
                        "check that Slurm's controller runs, and SLURM_CONF");
}

}  // namespace

Result<> Slurm::run(const std::vector<std::string> &argv) const {
  if (dry_run_) return {};
  CKPT_CHECK(output_of(argv));
  return {};
}

Result<std::vector<QueuedJob>> Slurm::jobs() const {
  CKPT_TRY(std::string text, output_of({"squeue", "--json"}));
  return parse_queue(text);
}

Result<std::vector<QueueNode>> Slurm::nodes() const {
  CKPT_TRY(std::string text, output_of({"scontrol", "show", "nodes", "--oneliner"}));
  return parse_nodes(text);
}

Result<> Slurm::update(u64 job, const std::vector<std::string> &fields) const {
  std::vector<std::string> argv = {"scontrol", "update", fmt::format("JobId={}", job)};
  argv.insert(argv.end(), fields.begin(), fields.end());
  return run(argv);
}

Result<> Slurm::start(u64 job, const std::vector<std::string> &nodes, const Tag &tag) const {
  return update(job, {fmt::format("ReqNodeList={}", fmt::join(nodes, ",")), "StartTime=now",
                      "Comment=" + text_of(tag)});
}

Result<> Slurm::hold_for(u64 job, i64 seconds, const Tag &tag) const {
  return update(
      job, {"ReqNodeList=", fmt::format("StartTime=now+{}", seconds), "Comment=" + text_of(tag)});
}

Result<> Slurm::release(u64 job) const {
  return run({"scontrol", "release", fmt::format("{}", job)});
}

Result<> Slurm::checkpoint(u64 job) const {
  return run({"scancel", "--batch", "--signal=USR2", fmt::format("{}", job)});
}

Result<> Slurm::note(u64 job, const Tag &tag) const {
  return update(job, {"Comment=" + text_of(tag)});
}

}  // namespace ckpt::tools
