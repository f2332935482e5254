// SPDX-License-Identifier: Apache-2.0
//
// The parts of the policy, each of which decides one thing, and what each message does to them.
#pragma once

#include <unordered_map>

#include "manager/policy/accounting/contexts.h"
#include "manager/policy/admission/admission.h"
#include "manager/policy/admission/denial.h"
#include "manager/policy/admission/starvation.h"
#include "manager/policy/eviction/deepening.h"
#include "manager/policy/eviction/rebalance.h"
#include "manager/policy/policy.h"
#include "manager/policy/profile/progress.h"
#include "manager/policy/profile/work.h"

namespace ckpt::manager {

struct Policy::Parts {
  Parts(Settings settings, std::vector<Gpu> gpus);

  State state;
  WorkloadProfiles profiles;
  Interference interference;
  Contexts contexts;
  Credits credits;
  Progress progress;
  Work work;
  Placement placement;
  Cohort cohort;
  Eviction eviction;
  Exchange exchange;
  Exclusivity exclusivity;
  Rebalance rebalance;
  Deepening deepening;
  Starvation starvation;
  Denial denial;
  Admission admission;

  // ---- policy.cc

  Program *find(ProgramId id) const;
  Program *add(ProgramId id, const managed::ToManager &message);
  void remove(Program &p);
  Orders decide();

  // ---- messages.cc

  void on(Program &, std::monostate) {}
  void on(Program &p, const managed::to_manager::Join &m);
  void on(Program &p, const managed::to_manager::Connect &m);
  void on(Program &p, const managed::to_manager::CudaMalloc &m);
  void on(Program &p, const managed::to_manager::CudaFree &m);
  void on(Program &p, const managed::to_manager::MallocDone &m);
  void on(Program &p, const managed::to_manager::MigDone &m);
  void on(Program &p, const managed::to_manager::SuspendDone &m);
  void on(Program &p, const managed::to_manager::Evicted &m);
  void on(Program &p, const managed::to_manager::ContextCheck &m);
  void on(Program &p, const managed::to_manager::Query &m);
  void on(Program &p, const managed::to_manager::Fin &m);
  void on(Program &p, const managed::to_manager::Failed &m);
  void on(Program &p, const managed::to_manager::Load &m);
  void on(Program &p, const managed::to_manager::LoadDone &m);
  void on(Program &p, const managed::to_manager::CreditReturned &m);
  void on(Program &p, const managed::to_manager::Workload &m);
  void on(Program &p, const managed::to_manager::Progress &m);
  void on(Program &p, const managed::to_manager::Uses &m);
  void on(Program &p, const managed::to_manager::AddApi &m);
  void on(Program &p, const managed::to_manager::Unsuited &m);
  void on(Program &, const managed::to_manager::StatusWanted &) {}  // the daemon's
  void on(Program &, const managed::to_manager::Holder &) {}        // the daemon's
  void on(Program &, const managed::to_manager::Ping &) {}          // the daemon's

  void ask(Program &p, const Request &request);
  void join_on_gpu(Program &p, const managed::to_manager::Join &m);
  bool asks_again(Program &p) const;
  void wait_for_gpu(Program &p, bool again);
  void run_unmanaged(Program &p);
  bool must_leave(const Program &p) const;
  void left(Program &p, u64 kept, const Stay &stay);
  void cannot_deepen(Program &p, Stay &stay);
  u64 plausible_contents(u64 bytes) const;

  std::unordered_map<ProgramId, Program *> by_id;
  std::unordered_map<ProgramId, u32> announced;  // Uses of programs that have not joined yet
  std::optional<Time> opens_at;                  // nothing is granted before
};

}  // namespace ckpt::manager
