// SPDX-License-Identifier: Apache-2.0
//
// Where and when a job runs (KS-5.3 and KS-5.4, docs/PAPERS.md).
//
// Problem. Jobs are submitted one by one and planned in that order, and a plan is never changed. A
// job of n nodes must wait until n nodes of a class are free at the same time, and until then fewer
// than n nodes, or nodes of a slower class, are idle. A job that can be checkpointed can use them
// meanwhile: it runs in an idle interval, is moved at its end, and continues elsewhere. Each move
// costs a checkpoint and a restore.
//
// Example. A job of 8 fast nodes would start in an hour. 8 slow nodes, half as fast, are idle now.
// It runs there for an hour, moves in 5 minutes, and has (60 - 5) / 2 minutes less to do.
//
// Policies.
//   MCT    minimum completion time: the class on which the job ends first, after all that is
//          planned there. It never starts before a job that was planned there earlier.
//   MCTB   with preemptive backfill: first uses the idle intervals of that class, before its start.
//   MCTM   with migration: first uses nodes of the other classes that nothing follows.
//   MCTBM  both: the seven steps of KS-5.4.
//   WMCT   our own: of all plans (a whole run in any idle interval, and those of the policies
//          above) the one that ends first when what it wastes is added: see `waste_weight`. It
//          always charges what really happens, whatever the options say.
//
// No policy delays a job that was planned before. Cost: on each class, a few searches in its
// calendar for each piece of the plan.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "schedule/plan/cluster.h"

namespace ckpt::schedule {

enum class PolicyName : u8 { Mct, Mctb, Mctm, Mctbm, Wmct };
std::optional<PolicyName> policy_named(std::string_view name);  // "MCTBM", in either case
std::string_view name_of(PolicyName p);

enum class Charge : u8 {
  Printed,  // every piece before the last run has a checkpoint and a restore, as KS-5.4 step 5 says
  Exact,    // the first piece has no restore, the last one no checkpoint
};

// Which idle intervals count in KS-5.4 step 2 ([?24]).
enum class Regions : u8 {
  BeforeStart,  // those that begin before the job's start by MCT; they end there at the latest
  Bounded,      // as above, but not the open end of another class, after all that is planned there
  All,          // also those after that start, and the open ends of all classes
};

// The readings of the paper where it is unclear. The defaults are those that the results are
// published with (bench/sched).
struct PolicyOptions {
  Charge charge = Charge::Printed;
  Regions regions = Regions::BeforeStart;
  // The last interval is shortened to what the job needs ([?26]); otherwise it is reserved whole.
  bool shorten_last = true;
  // Step 7 adds a restore to what is left ([?27]). Step 5 has charged one in each interval, so with
  // Charge::Printed a move is paid for without it too.
  bool final_restore = true;
  // The planned cost of a move divided by its real one, at least 1 (KS-5.5: 25, 50 and 75 s per
  // GB).
  double overestimate = 1;
  // WMCT: how much later a plan may end to occupy its job's nodes for a second less, where the job
  // would have to wait as long as it runs.
  double waste_weight = 0.05;
};

class Policy {
 public:
  Policy(PolicyName name, const PolicyOptions &options) : name_(name), options_(options) {}

  // The plan for a job that is submitted now; empty if no class has enough nodes. Reserves nothing.
  Plan plan(const Workload &w, size_t job, Ticks now, const Cluster &cluster) const;

  MoveCost planned_cost(const Job &job, const ResourceClass &c) const;

 private:
  PolicyName name_;
  PolicyOptions options_;
};

// The real cost of moving the job out of, or into, that class.
MoveCost real_cost(const Job &job, const ResourceClass &c);

}  // namespace ckpt::schedule
