// SPDX-License-Identifier: Apache-2.0
//
// The next actions of a daemon that controls a batch system: which waiting jobs it starts and
// where, and which running jobs it moves. They depend only on the current state of the batch
// system, so a restarted daemon decides as if it had never ended.
//
// Jobs are planned in the order of their submission by a Policy, on the nodes that are free now and
// will be when the running jobs end. Only the part of a plan that begins now is executed, because
// run times are estimates and the next call has newer ones. If a job has to leave its nodes at some
// time, that time is set at its start (Start::until). At that time it is moved, unless the plan for
// the rest of the job keeps it there.
//
// With a policy that migrates, a running job is also moved as soon as it would end earlier on other
// nodes for which no job waits, with the costs of the move.
//
// A job has whole nodes, unless its node may be shared (LiveJob::sharing, SteerOptions::shared).
// Such a job goes to the node on which it ends first by the contention model: beside jobs that run
// there, after some of them, or on an empty node. As for all jobs, that delays no start that was
// planned before. It slows down the jobs that run beside it, as the model predicts; their progress
// is counted with that slowdown, and the caller keeps its changes (Progress). Its plan has one
// piece. With a policy that migrates, it is moved to an empty node where it would end earlier.
//
// Cost: as Policy::plan, for each waiting and each running job, until no later job can begin now.
// In a cluster that is full that is after a few jobs of a long queue. For a job that shares, see
// place_search.h.
#pragma once

#include <optional>

#include "schedule/contention/sharers.h"
#include "schedule/plan/policy.h"

namespace ckpt::schedule {

struct LiveNode {
  std::string name;
  ClassIndex on = 0;
  // Until when jobs that are not steered occupy it: 0 if none does.
  Ticks busy_until = 0;
  Resources has;
};

struct LiveRun {
  ClassIndex on = 0;
  Ticks since = 0;
  std::optional<Ticks> until;      // when it has to leave
  std::vector<std::string> nodes;  // a name that is in no LiveNode counts for nothing
  bool leaving = false;            // it has been told to
  // The last Progress, where there was one: LiveJob::done is what was done at `since`, and this has
  // been the job's slowdown since then.
  std::optional<double> slowdown;
};

// What the contention model knows of a job of one node. Its seconds are those of LiveJob::run.
struct SharingJob {
  ContentionTask task;
  Resources needs;
};

struct LiveJob {
  u64 id = 0;
  Job job;                 // `submit` orders the jobs
  std::vector<Ticks> run;  // of the whole job, by class; 0: it cannot run there
  double done = 0;         // of it, in earlier runs
  std::optional<LiveRun> running;
  std::optional<SharingJob> sharing;
};

struct SteerOptions {
  PolicyName policy = PolicyName::Wmct;
  PolicyOptions of;
  // Between the end of a checkpoint and the begin of the next run, in the batch system.
  Ticks requeue_delay = 0;
  // By class. Nothing, or no entry: nodes of this class are not shared.
  std::vector<std::optional<Bandwidths>> shared;
  // Also jobs are planned that cannot begin now, and for those that share, all shared nodes are
  // looked at. The decisions are the same, for tests.
  bool plan_all = false;
};

struct Start {
  u64 id = 0;
  ClassIndex on = 0;
  std::vector<std::string> nodes;
  std::optional<Ticks> until;
};
struct Move {
  u64 id = 0;
  double done = 0;
  double checkpoint_seconds = 0;  // that its checkpoint was planned to take
};
// A job may stay on its nodes although its time to leave has come.
struct Extend {
  u64 id = 0;
  std::optional<Ticks> until;
};
// A running job's neighbours have changed. At `since`, `done` of it was done; it may be in the
// future, when the job's restore will have ended.
struct Progress {
  u64 id = 0;
  double done = 0;
  Ticks since = 0;
  double slowdown = 1;
};
struct Decisions {
  std::vector<Start> starts;
  std::vector<Move> moves;
  std::vector<Extend> extensions;
  std::vector<Progress> progress;
};

Decisions steer(Ticks now, const std::vector<ResourceClass> &classes,
                const std::vector<LiveNode> &nodes, std::vector<LiveJob> jobs,
                const SteerOptions &options);

}  // namespace ckpt::schedule
