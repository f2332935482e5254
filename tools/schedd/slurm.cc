// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/slurm.h"

#include "tools/session/job_comment.h"
#include "tools/slurm_command.h"

#include <sys/random.h>

namespace ckpt::tools {
namespace {

// It is in the environment of squeue, which other users cannot read, unlike its command line.
Result<std::string> new_mark() {
  u64 chance = 0;
  if (::getrandom(&chance, sizeof chance, 0) != sizeof chance)
    return fail_errno("cannot get a random number");
  return fmt::format("|{:016x}", chance);
}

// Of all jobs, also of partitions that are hidden. Times are in seconds since 1970.
Result<std::string> squeue(const std::string &variable, std::string format) {
  return slurm_command({"squeue", "--noheader", "--all", "--local", "--states=all", "--sort=i"},
                       {{variable, std::move(format)}, {"SLURM_TIME_FORMAT", "%s"}});
}

}  // namespace

Result<std::vector<QueuedJob>> Slurm::jobs(Laps &laps) {
  CKPT_TRY(const std::string mark, new_mark());
  if (!with_excluded_) {
    CKPT_TRY(std::string version, slurm_command({"squeue", "--version"}));
    with_excluded_ = knows_exclusions(version);
  }
  CKPT_TRY(std::string text, squeue("SQUEUE_FORMAT2", queue_format(mark, *with_excluded_)));
  std::string excluded;
  if (!*with_excluded_) {
    CKPT_TRY(excluded, squeue("SQUEUE_FORMAT", exclusions_format(mark)));
  }
  laps.add(Laps::kRead);
  CKPT_TRY(std::vector<QueuedJob> jobs, parse_queue(text, mark, *with_excluded_));
  CKPT_CHECK(add_exclusions(excluded, mark, jobs));
  laps.add(Laps::kParse);
  return jobs;
}

Result<std::vector<QueueNode>> Slurm::nodes(Laps &laps) const {
  CKPT_TRY(std::string text, slurm_command({"scontrol", "show", "nodes", "--oneliner"}));
  laps.add(Laps::kRead);
  Result<std::vector<QueueNode>> nodes = parse_nodes(text);
  laps.add(Laps::kParse);
  return nodes;
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
