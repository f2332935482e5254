// SPDX-License-Identifier: Apache-2.0
//
// --job: a program of a job. Its programs are checkpointed together (docs/rooms/job.md). The
// keeper listens for the job's coordinator, and starts ckpt-dump with its connection.
//
// Every process on the network can connect. The keeper passes a connection to ckpt-dump when its
// peer has shown the job's key (tools/job/entrance.h). One connection is served at a time.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "common/base/unique_fd.h"
#include "tools/command_line.h"
#include "tools/job/entrance.h"
#include "tools/job/job_folder.h"
#include "tools/session/keeper.h"

namespace ckpt::tools {

struct JobOptions {
  std::string folder;  // empty: no job
  std::string member;
  unsigned programs = 0;  // how many the job has; 0: unknown
};

// Returns --job.
Option add_job_options(CommandLine &line, JobOptions &options);
// Replaces the placeholders of both, makes the folder's path absolute, and chooses the usual name.
Result<> complete(JobOptions &options);

class JobMember {
 public:
  // A program that is to be restored.
  struct Restoring {
    unsigned checkpoint = 0;  // 0: it is not restored, but started
    std::set<u16> ports;      // that it needs
  };
  // Registers in the job's folder, which is created. `options` are complete. The caller accepts the
  // coordinator of a restore itself.
  static Result<std::unique_ptr<JobMember>> join(JobOptions options, const Restoring &restoring);

  const JobFolder &folder() const { return folder_; }
  const std::string &name() const { return options_.member; }
  Entrance &entrance() { return *entrance_; }
  // From now on the program can be dumped. Works in the loop of `keeper`, which must outlive it.
  void serve(Keeper &keeper);
  // To be called before this object is destroyed, if the program has ended by itself.
  void program_ended(int wait_status);

 private:
  JobMember(JobOptions options, JobFolder folder)
      : options_(std::move(options)), folder_(std::move(folder)) {}
  void accept();
  Result<> start_dump(Opening opening);

  JobOptions options_;
  JobFolder folder_;
  Registration registration_;
  std::unique_ptr<Entrance> entrance_;
  u16 port_ = 0;
  Keeper *keeper_ = nullptr;
  bool restoring_ = false, serving_ = false;
};

// The exit code of ckpt-dump for a peer that is not the job's coordinator.
inline constexpr int kNotOfTheJob = 5;
// The exit code of ckpt-dump --job while another one coordinates a checkpoint of the job.
inline constexpr int kJobIsBusy = 4;

}  // namespace ckpt::tools
