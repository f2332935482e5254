// SPDX-License-Identifier: Apache-2.0
//
// --on-signal: a signal of the batch system becomes a checkpoint of the program, which then stops.
//
// A batch system tells a job to leave its node by a signal, to one of the job's processes or to
// all. So the processes that the keeper starts ignore these signals (the proxies, ckpt-dump, CRIU,
// and the program unless it catches them), and only the keeper acts on them. It returns 85, which
// tells the batch system to queue the job again, or 86 for USR2, which lets the batch system hold
// the job until a scheduler has chosen another node (slurm.conf(5), RequeueExit and
// RequeueExitHold).
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "tools/command_line.h"
#include "tools/session/dump_tools.h"
#include "tools/session/keeper.h"

namespace ckpt::tools {

constexpr int kHeldExitCode = 86;

// "TERM,USR1", with or without SIG, or "none". At most those that a keeper reads.
Result<std::vector<int>> parse_signals(const std::string &list);

// To be called first, while this process has one thread: from now on these signals are kept for the
// keeper, and the processes that this one starts ignore them.
void hold_signals(const std::vector<int> &signals);

class OnSignal {
 public:
  // Starts the ckpt-dump that stops the program.
  using Begin = std::function<Result<>(Keeper::DumpEnded ended)>;
  // Works in the loop of `keeper`, which must outlive this object.
  static Result<std::unique_ptr<OnSignal>> start(Keeper &keeper, std::vector<int> signals,
                                                 Begin begin);
  // 85 or 86 if such a signal has ended the program or its restore; otherwise 0.
  int exit_code() const;

 private:
  OnSignal(Keeper &keeper, Begin begin) : keeper_(keeper), begin_(std::move(begin)) {}
  void arrived(int signal);
  void retry_after(std::chrono::milliseconds wait);
  void checkpoint();
  void ended(int wait_status, const nlohmann::json &report);
  void failed(const std::string &why);

  Keeper &keeper_;
  Begin begin_;
  UniqueFd timer_;
  int signal_ = 0;  // the last one that is not dealt with
  // What prevents a checkpoint often passes in the time that a batch system gives, so another
  // attempt follows, later and later.
  bool waits_ = false;
  std::chrono::seconds wait_{};
  Clock::time_point until_{};
  std::string last_failure_;  // is not repeated
  DumpWarnings warnings_;
};

}  // namespace ckpt::tools
