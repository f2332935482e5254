// SPDX-License-Identifier: Apache-2.0
//
// One round of ckpt-schedd: reads Slurm's queue, asks schedule/steer what to do, and has Slurm do
// it. What was done with a job is in its Record, and only there.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "schedule/steer/steer.h"
#include "tools/schedd/class_costs.h"
#include "tools/schedd/node_kinds.h"
#include "tools/schedd/slurm.h"
#include "tools/schedd/steered.h"

namespace ckpt::tools {

struct SchedOptions {
  // A node belongs to the class that has the name of one of its features.
  std::vector<schedule::ResourceClass> classes;
  std::vector<double> speeds;
  std::string storage;  // see move_costs()
  schedule::SteerOptions steer;
  i64 grace = 120;                  // seconds
  i64 settle = 10;                  // seconds
  std::optional<double> megabytes;  // of the image of a job without a size in its tag
  bool dry_run = false;             // nothing is changed, and the records are not written
  bool times = false;               // say how long the parts of each round took
};

class Daemon {
 public:
  // `history`: what the costs of moves are fitted to.
  Daemon(SchedOptions options, Records records, std::vector<nlohmann::json> history)
      : options_(std::move(options)),
        slurm_(options_.dry_run),
        records_(std::move(records)),
        costs_(std::move(history), options_.storage) {}

  Result<> round();
  // Gives all jobs that wait for the daemon to Slurm, at once.
  Result<> release_all();

 private:
  // The classes of the nodes that can be used now.
  using LiveKinds = std::unordered_map<std::string_view, Kind>;
  std::vector<Steered> steered_of(const std::vector<QueuedJob> &jobs);
  NodeKinds kinds_of(const std::vector<QueueNode> &nodes,
                     const std::vector<Steered> &steered) const;
  // Without the jobs that exclude nodes, if these would be too many kinds.
  NodeKinds few_kinds_of(const std::vector<QueueNode> &nodes, std::vector<Steered> &steered);
  // Leaves to Slurm what no plan can place, and names it once if it waits.
  void drop_without_place(std::vector<Steered> &steered, const NodeKinds &kinds);
  std::vector<schedule::LiveNode> nodes_of(const std::vector<QueueNode> &nodes,
                                           const NodeKinds &kinds,
                                           const std::vector<QueuedJob> &jobs,
                                           const std::vector<Steered> &steered);
  std::optional<schedule::LiveJob> live(const Steered &s, const NodeKinds &kinds,
                                        const LiveKinds &usable);
  std::optional<schedule::LiveRun> run_of(const Steered &s, const LiveKinds &usable) const;
  schedule::Decisions decide(const NodeKinds &kinds, const std::vector<schedule::LiveNode> &nodes,
                             std::vector<schedule::LiveJob> jobs) const;
  std::optional<schedule::SharingJob> sharing_of(const Steered &s);
  void keep_held(Steered &s);
  void keep_where_it_is(Steered &s);
  void apply(const schedule::Decisions &d, const NodeKinds &kinds, std::vector<Steered> &steered);
  void apply_starts(const schedule::Decisions &d, const NodeKinds &kinds,
                    std::vector<Steered> &steered);
  // Whether its script has had the time to start ckpt-run, without which the signal would end it.
  bool has_settled(const Steered &s) const;
  void apply_progress(const schedule::Decisions &d, std::vector<Steered> &steered);
  Result<> move(const Steered &s);
  Result<> save_records();
  bool may_start(const Steered &s) const;
  void count_failed_start(Record &r) const;
  void change_jobs(Laps &laps);
  // A job that Slurm does not let us change, as it belongs to another user or has just ended, is
  // left to Slurm for a while, so that other jobs are still handled.
  void leave_alone(u64 job, const std::string &why);

  std::optional<schedule::ClassIndex> class_of(const QueueNode &node) const;
  void fit_costs(const std::vector<QueueNode> &nodes);

  const SchedOptions options_;
  Slurm slurm_;
  Records records_;
  i64 now_ = 0;  // seconds since 1970
  ClassCosts costs_;
  std::set<u64> complained_;
  std::map<u64, i64> left_alone_;  // until when
};

}  // namespace ckpt::tools
