// SPDX-License-Identifier: Apache-2.0
//
// ckpt-restore --job: restores one program of a job, which continues when all programs of the job
// are restored.
//
// Each is restored by a ckpt-restore on its node. The one for the member with the first name also
// coordinates them, in a thread: it waits until all are ready, and tells them when to proceed. No
// copy runs before all exist. Until then each node drops the packets for these connections, because
// its kernel would answer a packet for a connection that does not exist yet with a reset.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tools/job/crew.h"
#include "tools/job/member_link.h"
#include "tools/session/job_member.h"

namespace ckpt::tools {

class JobRestore {
 public:
  // `checkpoint` 0: the newest complete one.
  static Result<std::unique_ptr<JobRestore>> choose(JobOptions options, unsigned checkpoint);
  ~JobRestore();

  std::string image() const { return folder_.image(checkpoint_, options_.member); }
  // Registers, and starts the coordinator if this process has to run it. After any fork(2). Leaves
  // `ports` to the program.
  Result<> join(const std::set<u16> &ports);

  // How long to wait for the ckpt-restore of the other members. Otherwise for ever.
  void wait_at_most(std::chrono::duration<double> time) { wait_ = time; }
  // The program has ended by itself.
  void program_ended(int wait_status) { member_->program_ended(wait_status); }

  // Called in the thread that restores. Fails if the job is cancelled.
  using Check = MemberLink::Check;
  Result<> meet_before(const Check &check);    // all images can be restored
  Result<> meet_restored(const Check &check);  // all copies exist
  // In the keeper's loop, when the program runs: it can be dumped again.
  void serve(Keeper &keeper);
  // The program has ended.
  void leave();

 private:
  JobRestore(JobOptions options, JobFolder folder, unsigned checkpoint)
      : options_(std::move(options)), folder_(std::move(folder)), checkpoint_(checkpoint) {}
  Result<> accept_coordinator(const Check &check);
  bool accept(Opening opening);
  Result<bool> ask_decision(const Error &why);
  std::string decision_of(const std::string &attempt) const;

  // The coordinator's thread.
  void coordinate();
  Result<> lead(Crew &crew, const std::string &attempt);
  Result<std::map<std::string, MemberAddress>> wait_for_members() const;
  Result<std::vector<std::string>> missing_members() const;
  Error others_are_missing() const;
  Result<> not_stopped() const;

  JobOptions options_;
  JobFolder folder_;
  unsigned checkpoint_;
  std::vector<std::string> names_;
  std::optional<std::chrono::duration<double>> wait_;
  std::unique_ptr<JobMember> member_;
  std::unique_ptr<MemberLink> link_;
  std::atomic<bool> stop_ = false;
  std::string why_;                    // set before the next
  std::atomic<bool> gave_up_ = false;  // by the coordinator
  std::thread coordinator_;
};

}  // namespace ckpt::tools
