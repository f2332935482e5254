// SPDX-License-Identifier: Apache-2.0
//
// What a dump refuses: before it touches the program, what the program's callbacks have left open
// (ckpt_on_checkpoint), and what a restore could not do with the rights that CRIU has recorded.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/criu/criu.h"
#include "tools/criu/rights.h"
#include "tools/dump/agents.h"
#include "tools/dump/dump_options.h"
#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class Refusals {
 public:
  using Remarks = std::vector<std::string>;
  Refusals(const DumpOptions &options, const Target &target) : options_(options), target_(target) {}

  // Connects the agents. Fails with all reasons, which are reported at once.
  Result<> check(Agents &agents, Remarks &remarks);
  // An agent could not be reached, or was about to start.
  bool agents_missed() const { return agents_missed_; }
  // The callbacks have run.
  Result<> check_closed() const;
  // The program is stopped, so that what CRIU has recorded is what a restore will obey. A process
  // may have got other rights since they were checked.
  Result<> check_recorded(const Ownership &recorded, Remarks &remarks) const;

  // ---- the parts of check()

  // All that can be seen from outside of the program's processes. Finds criu() and rights().
  Reasons from_outside();
  Closables find_closables() const;
  // Finds may_close().
  void ask(Agents &agents, Reasons &reasons, Remarks &remarks);

  // ---- what they have found

  const Criu &criu() const { return criu_; }
  const CriuRights &rights() const { return rights_; }
  // The processes with callbacks that may close what no image holds.
  const std::set<pid_t> &may_close() const { return may_close_; }

 private:
  Closables look_for_closables() const;
  Result<> refuse_as_template(Reasons &reasons) const;

  const DumpOptions &options_;
  const Target &target_;
  Criu criu_;
  CriuRights rights_;
  std::set<pid_t> may_close_;
  bool must_close_ = false;  // and there is something to close
  bool agents_missed_ = false;
};

}  // namespace ckpt::tools
