// SPDX-License-Identifier: Apache-2.0
//
// ckpt-run --job --on-signal: a signal of the batch system to one program of a job, or to all,
// checkpoints and stops the whole job.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/session/on_signal.h"

namespace ckpt::tools {

class JobSignals {
 public:
  // To be called first of all: see hold_signals(). `list`: of --on-signal; "": no signal.
  static Result<JobSignals> hold(const std::string &list);
  // Works in the loop of `keeper`, which must outlive this object. `keep`: how many complete
  // checkpoints of the job remain.
  Result<> start(Keeper &keeper, const std::string &folder, unsigned keep);
  // 85 or 86 if such a signal has ended the program or its restore; otherwise 0.
  int exit_code(const Keeper::Outcome &outcome) const;

 private:
  std::vector<int> signals_;
  std::unique_ptr<OnSignal> on_signal_;
};

}  // namespace ckpt::tools
