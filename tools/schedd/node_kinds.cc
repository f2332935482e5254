// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/node_kinds.h"

#include <algorithm>

namespace ckpt::tools {
namespace {

// Without its exclusions.
bool allows(const Demands &d, const QueueNode &n) {
  auto is_of = [&](const std::string &partition) {
    return std::ranges::find(n.partitions, partition) != n.partitions.end();
  };
  return (d.partitions.empty() || std::ranges::any_of(d.partitions, is_of)) &&
         satisfies(n.features, d.constraint).value_or(false);
}

using Allowed = std::vector<bool>;  // by the number of the demands

// Most nodes have the partitions and features of others.
class AllowedNodes {
 public:
  explicit AllowedNodes(const std::map<Demands, size_t> &index) : index_(index) {
    for (const auto &[d, number] : index)
      for (const std::string &node : d.excluded) excluded_[node].push_back(number);
  }

  Allowed of(const QueueNode &n) {
    auto [at, added] = known_.try_emplace({n.partitions, n.features});
    if (added)
      for (const auto &[d, number] : index_) at->second.push_back(allows(d, n));
    Allowed allowed = at->second;
    if (auto by = excluded_.find(n.name); by != excluded_.end())
      for (size_t number : by->second) allowed[number] = false;
    return allowed;
  }

 private:
  const std::map<Demands, size_t> &index_;
  std::unordered_map<std::string, std::vector<size_t>> excluded_;
  std::map<std::pair<std::vector<std::string>, std::vector<std::string>>, Allowed> known_;
};

}  // namespace

NodeKinds::NodeKinds(const std::vector<QueueNode> &nodes, const ClassOf &class_of,
                     const std::set<Demands> &demands) {
  bool exclude = false;
  for (const Demands &d : demands) {
    index_.emplace(d, index_.size());
    exclude |= !d.excluded.empty();
  }
  AllowedNodes allowed_nodes(index_);
  std::map<std::pair<schedule::ClassIndex, Allowed>, Kind> kinds;
  for (const QueueNode &n : nodes) {
    std::optional<schedule::ClassIndex> c = class_of(n);
    if (!c) continue;
    are_too_many_ = exclude && class_of_.size() > kMost;
    if (are_too_many_) return;
    Allowed allowed = allowed_nodes.of(n);
    auto [kind, added] = kinds.try_emplace({*c, allowed}, static_cast<Kind>(class_of_.size()));
    if (added) {
      class_of_.push_back(*c);
      allowed_.push_back(std::move(allowed));
      nodes_.push_back(0);
    }
    nodes_[kind->second]++;
    of_[n.name] = kind->second;
  }
}

std::optional<Kind> NodeKinds::of(const std::string &node) const {
  auto at = of_.find(node);
  return at == of_.end() ? std::nullopt : std::optional(at->second);
}

bool NodeKinds::has_place_for(size_t demands, unsigned nodes) const {
  for (Kind k = 0; k < count(); k++)
    if (allowed(demands, k) && nodes_[k] >= nodes) return true;
  return false;
}

bool runs_where_allowed(const QueuedJob &job, const NodeKinds &kinds) {
  const size_t demands = kinds.number_of(job.demands);
  return std::ranges::all_of(job.on, [&](const std::string &node) {
    std::optional<Kind> kind = kinds.of(node);
    return !kind || kinds.allowed(demands, *kind);
  });
}

}  // namespace ckpt::tools
