// SPDX-License-Identifier: Apache-2.0
//
// The nodes by kind: nodes of one kind have the same class, and the same jobs may use them. The
// planner (schedule/) counts the nodes of a class and does not know them one by one, so the daemon
// gives it kinds as its classes.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "schedule/plan/policy.h"
#include "tools/schedd/queue.h"

namespace ckpt::tools {

using Kind = schedule::ClassIndex;

class NodeKinds {
 public:
  // Each kind costs memory and time for each job. Without exclusions (sbatch --exclude), there are
  // no more than the administrator's partitions and features make; with them, any user can make
  // more.
  static constexpr size_t kMost = 256;

  using ClassOf = std::function<std::optional<schedule::ClassIndex>(const QueueNode &)>;
  // Nodes without a class are in none.
  NodeKinds(const std::vector<QueueNode> &nodes, const ClassOf &class_of,
            const std::set<Demands> &demands);

  // There are more than kMost, and not all were counted.
  bool are_too_many() const { return are_too_many_; }
  size_t count() const { return class_of_.size(); }
  schedule::ClassIndex class_of(Kind k) const { return class_of_[k]; }
  std::optional<Kind> of(const std::string &node) const;
  // `d` is one of the constructor's demands; its number is for the next two.
  size_t number_of(const Demands &d) const { return index_.at(d); }
  bool allowed(size_t demands, Kind k) const { return allowed_[k][demands]; }
  // Whether `nodes` nodes of one kind are all that it asks for, perhaps not usable now. A plan is
  // for nodes of one kind.
  bool has_place_for(size_t demands, unsigned nodes) const;

 private:
  bool are_too_many_ = false;
  std::map<Demands, size_t> index_;
  std::vector<schedule::ClassIndex> class_of_;
  std::vector<unsigned> nodes_;  // also those that are not usable now
  std::vector<std::vector<bool>> allowed_;
  std::unordered_map<std::string, Kind> of_;
};

// Whether a running job's nodes are of kinds that it may use, or of none.
bool runs_where_allowed(const QueuedJob &job, const NodeKinds &kinds);

}  // namespace ckpt::tools
