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
  using ClassOf = std::function<std::optional<schedule::ClassIndex>(const QueueNode &)>;
  // Nodes without a class are in none.
  NodeKinds(const std::vector<QueueNode> &nodes, const ClassOf &class_of,
            const std::set<Demands> &demands);

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
  std::map<Demands, size_t> index_;
  std::vector<schedule::ClassIndex> class_of_;
  std::vector<unsigned> nodes_;  // also those that are not usable now
  std::vector<std::vector<bool>> allowed_;
  std::unordered_map<std::string, Kind> of_;
};

}  // namespace ckpt::tools
