// SPDX-License-Identifier: Apache-2.0
//
// The dump of one program of a job: the keeper starts ckpt-dump with the connection on which the
// job's coordinator leads it (docs/rooms/job.md).
#pragma once

#include <functional>

#include "tools/dump/barriers.h"
#include "tools/dump/cancel.h"
#include "tools/dump/dump_options.h"
#include "tools/dump/dump_report.h"
#include "tools/job/member_link.h"

namespace ckpt::tools {

struct JobConnectionOptions {
  std::string folder, member;
  std::optional<int> connection;  // the descriptor
  // A file with the state of the channel; none: the keeper, of an earlier version, has not checked
  // the key.
  std::optional<int> greeted;
};

class JobMemberDump : public DumpBarriers {
 public:
  JobMemberDump(JobFolder folder, MemberLink link, Cancel &cancel)
      : folder_(std::move(folder)), link_(std::move(link)), cancel_(cancel) {}

  // Sets what the coordinator decides.
  void configure(DumpOptions &options);
  // The end of the dump, which the coordinator waits for.
  void report(const Result<DumpReport> &r);

  Result<> ready(const Connections &now, const std::set<pid_t> &may_close) override;
  Result<> settled() override;
  Result<> locked(const Connections &stopped) override;
  Result<> captured() override;
  Result<> durable() override;

 private:
  Result<> meet(Stage stage, std::vector<JobConnection> connections = {});
  Result<bool> ask_decision(const Error &why);

  JobFolder folder_;
  MemberLink link_;
  Cancel &cancel_;
};

// An error: the peer is not of this job.
Result<std::unique_ptr<JobMemberDump>> accept_job(const JobConnectionOptions &o, Cancel &cancel);

}  // namespace ckpt::tools
