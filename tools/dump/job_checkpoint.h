// SPDX-License-Identifier: Apache-2.0
//
// The coordinator of a checkpoint of a job: ckpt-dump --job. run() is its table of contents;
// docs/rooms/job.md says what happens if it dies between any two steps.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tools/dump/cancel.h"
#include "tools/job/crew.h"
#include "tools/job/job_folder.h"
#include "tools/phases.h"

namespace ckpt::tools {

struct JobCheckpointOptions {
  std::string folder;
  bool leave_running = false;
  std::optional<unsigned> keep;  // how many complete checkpoints remain
  unsigned timeout_seconds = 60;
};

struct JobReport {
  unsigned checkpoint = 0;
  std::string folder;
  nlohmann::json members;  // by name: what each has reported
  double seconds = 0;
  nlohmann::json phases;
};

class JobCheckpoint {
 public:
  JobCheckpoint(JobCheckpointOptions options, Cancel &cancel)
      : options_(std::move(options)), cancel_(cancel) {}
  // A failure leaves all programs running, unless the checkpoint is complete.
  Result<JobReport> run();
  bool complete() const { return complete_; }
  // After a failure: another checkpoint of the job is under way.
  bool busy() const { return busy_; }

 private:
  using Members = std::map<std::string, MemberAddress>;
  Result<> attempt(const JobFolder &folder);
  Result<> lead(const JobFolder &folder, Crew &crew);
  Result<Members> running_members(const JobFolder &folder);
  Result<> connect(const JobFolder &folder, Crew &crew);
  Result<> compare_connections(const Crew &crew, const std::vector<Reached> &reached);
  Result<> commit(const JobFolder &folder, Crew &crew);
  Result<> finish(Crew &crew);
  void prune(const JobFolder &folder) const;

  JobCheckpointOptions options_;
  Cancel &cancel_;
  Phases phases_;
  bool complete_ = false;
  bool busy_ = false;
  bool may_pass_ = false;  // the connections did not match, but may match at the next comparison
  JobReport report_;
};

}  // namespace ckpt::tools
