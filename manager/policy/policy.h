// SPDX-License-Identifier: Apache-2.0
//
// The Manager's decisions, and nothing else: messages and measurements in, messages out. No socket,
// no clock, no chance: the same inputs give the same orders. The daemon runs it (manager/daemon),
// tests and simulators do.
//
// Whoever calls tells what is free (measured()) before each message, since grants are made of what
// was measured and not of what was counted (MC-2).
//
// What it promises, if what was told is true: granted memory is there; a program that waits gets
// its turn, since of those that have waited for Settings::starvation_limit one after the other is
// the starving, for which all that comes free somewhere is kept; no request is denied unless no
// waiting could help.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <unordered_map>

#include "common/managed/messages.h"
#include "manager/policy/accounting/accounting.h"

namespace ckpt::manager {

struct Order {
  ProgramId to = 0;
  managed::ToProgram message;
};
using Orders = std::vector<Order>;

class Policy {
 public:
  Policy(Settings settings, std::vector<Gpu> gpus);

  // Of a GPU that nobody measures: what is not somebody else's.
  void measured(GpuIndex gpu, u64 free, bool foreign, bool dying = false);
  // What the driver says that the program has on its GPU, contexts and all. Where nobody can tell,
  // it is not called, and a context that was made is taken for seen.
  void footprint(ProgramId program, u64 bytes);

  // A Join makes the program; of what comes from one that has not joined only Uses is remembered.
  Orders receive(Time now, ProgramId from, const managed::ToManager &message);
  // Its connection is gone, and with it all that it had.
  Orders gone(Time now, ProgramId program);
  // Time has passed; to be called now and then while something waits() for that.
  Orders tick(Time now);
  bool waits() const;

  const Settings &settings() const { return settings_; }
  const std::vector<Gpu> &gpus() const { return gpus_; }
  const Programs &programs() const { return programs_; }  // in order of arrival
  const Program *find(ProgramId id) const;
  const WorkloadProfiles &profiles() const { return profiles_; }
  // What an earlier Manager knew of them.
  void learn(Time now, const std::vector<ProfileFacts> &all) {
    for (ProfileFacts facts : all) {
      facts.peak = sane(facts.peak);
      profiles_.learn(now, facts);
    }
  }
  std::vector<Interference::Finding> findings() const { return interference_.findings(now_); }
  Accounting accounting() const { return make_accounting(gpus_, programs_, settings_); }

 private:
  bool anybody_waits() const;
  Program *known(ProgramId id);
  Gpu &gpu_of(const Program &p) { return gpus_[static_cast<size_t>(p.gpu)]; }
  GpuAccount &account_of(const Program &p) { return accounting_.gpus[static_cast<size_t>(p.gpu)]; }
  GpuIndex gpu_named(const std::string &uuid) const;
  u64 plausible_kept(u64 bytes) const;
  void send(const Program &to, managed::ToProgram message) {
    orders_.push_back({to.id, std::move(message)});
  }
  void go_to(Program &p, Phase phase);
  void company_changes(const Program &p);
  Orders finish();

  // Messages (receive.cc)
  void on(Program &, std::monostate) {}
  void on(Program &p, const managed::to_manager::Join &m);
  void on(Program &p, const managed::to_manager::Connect &m);
  void on(Program &p, const managed::to_manager::CudaMalloc &m);
  void on(Program &p, const managed::to_manager::CudaFree &m);
  void on(Program &p, const managed::to_manager::MallocDone &m);
  void on(Program &p, const managed::to_manager::MigDone &m);
  void on(Program &p, const managed::to_manager::SuspendDone &m);
  void on(Program &p, const managed::to_manager::ContextCheck &m);
  void on(Program &p, const managed::to_manager::Query &m);
  void on(Program &p, const managed::to_manager::Fin &m);
  void on(Program &p, const managed::to_manager::Failed &m);
  void on(Program &p, const managed::to_manager::Load &m);
  void on(Program &p, const managed::to_manager::LoadDone &m);
  void on(Program &p, const managed::to_manager::CreditReturned &m);
  void on(Program &, const managed::to_manager::StatusWanted &) {}
  void on(Program &p, const managed::to_manager::Workload &m);
  void on(Program &p, const managed::to_manager::Progress &m);
  void on(Program &p, const managed::to_manager::Uses &m);
  void on(Program &p, const managed::to_manager::AddApi &m);
  void on(Program &p, const managed::to_manager::Unsuited &m);
  void on(Program &, const managed::to_manager::Holder &) {}  // the daemon's business
  void on(Program &, const managed::to_manager::Ping &) {}
  void ask(Program &p, const Request &request);
  void see_context(Program &p, std::optional<u64> footprint);
  void see_variables(Program &p, std::optional<u64> footprint);
  void see_variables_again(Program &p);
  void look_for_variables(Program &p);
  std::optional<u64> footprint_measured(const Program &p) const;
  void learn_context(u64 bytes);
  void answer_requests(Program &p);
  void confirm(const Program &p);
  void remove(Program &p);

  // How they get on (progress.cc)
  struct Company {
    u32 others = 0;
    ProfileIndex beside = kNoProfile;  // the profile of the last one
  };
  std::optional<Company> company_of(const Program &p) const;
  ProfileIndex profile_of(const Program &p);
  bool kept_apart(const Program &p, GpuIndex g);
  bool spared(const Program &p) const;

  // Who suits whom (company.cc)
  void update_expectations();
  void note_peak(Program &p);
  bool too_small(const Program &p, GpuIndex g) const;
  double stretch_with(const Program &p, GpuIndex g) const;
  Program *better_company(std::span<Program *const> behind, const Program &next, GpuIndex g);

  // Who gets what (waiting.cc)
  void serve();
  void serve_requests();
  void serve_waiting(const std::vector<Program *> &waiting);
  void serve_one(Program &p, std::span<Program *const> behind);
  std::vector<Program *> in_order();
  void send_home(Program &p);
  GpuIndex where(const Program &p);
  void place(Program &p, GpuIndex g);
  bool suits(const Program &p, GpuIndex g) const;
  bool suits_any(const Program &p) const;
  bool none_assignable(const Program &p, bool one_is_kept = false) const;
  bool keeps_place(const Program &p, GpuIndex g) const;
  bool keeps_assignment(const Program &p, GpuIndex g) const;
  bool may_enter(const Program &p, GpuIndex g);
  bool never_fits(const Program &p) const;
  std::optional<std::string> over_limit(const Program &p) const;
  void keep_for(Program &starving);
  void give_up_hopeless();
  bool hopeless(const Program &p) const;
  bool refuse_one(Program &p);
  void undo_deadlocks();
  bool deadlocked(GpuIndex g) const;
  void deny(Program &p, Request &r, const std::string &why);

  // Who leaves (victims.cc)
  bool grant_or_make_room(Program &p, Request &r);
  void make_room(Program &p, u64 bytes);
  Program *cheapest(const Program &asking, u64 bytes);
  bool can_leave(const Program &p) const;
  bool has_run(const Program &p, Time least) const { return now_ - p.since >= least; }
  void keep_contents(Program &p);
  void suspend(Program &p);
  void signal(Program &p);
  bool has_it_alone(const Program &p) const;
  void make_alone(Program &p);
  bool may_clear(const Program &p) const;
  GpuIndex empty_gpu(const Program &p);
  void clear_for(Program &p);
  GpuIndex easiest_to_clear(const Program &p) const;
  std::optional<u64> cost_to_clear(GpuIndex g, const Program &p) const;
  void evict_others(Program &exclusive);
  void end_slices(const Program &starving, GpuIndex g);
  void note_the_stuck();

  // What is given without a question (credit.cc)
  void grant_credit(Program &p);
  void revoke_credits();
  bool credit_returning(GpuIndex gpu) const;

  // Who moves to a GPU that nobody uses (balance.cc)
  void balance();
  bool is_idle(GpuIndex g) const;
  Program *who_moves_to(GpuIndex empty);
  bool shares(const Program &p) const;
  bool may_move(const Program &p, GpuIndex to) const;
  bool could_move(const Program &p, GpuIndex to) const;
  bool may_still_move(const Program &p) const;
  bool leaves_in_vain(const Program &p, const Program &for_it) const;
  bool may_balance() const;

  // Of programs that need the same APIs: the GPUs that serve these, and whose are among them.
  struct Servers {
    size_t gpus = 0;
    std::array<bool, managed::kAllApis + 1> within{};
  };
  Servers servers_of(u32 apis) const;

  Settings settings_;
  WorkloadProfiles profiles_;
  Interference interference_;
  std::vector<Gpu> gpus_;
  std::array<Servers, managed::kAllApis + 1> servers_;
  Programs programs_;
  std::unordered_map<ProgramId, Program *> by_id_;
  std::unordered_map<ProgramId, u64> footprints_;  // of the message that is being handled
  std::unordered_map<ProgramId, u32> announced_;   // Uses of those that have not joined yet
  Time now_{0};
  std::optional<Time> open_at_;
  Accounting accounting_;
  Orders orders_;
};

}  // namespace ckpt::manager
