// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/node_kinds.h"

#include <algorithm>

namespace ckpt::tools {
namespace {

bool allows(const Demands &d, const QueueNode &n) {
  auto is_of = [&](const std::string &partition) {
    return std::ranges::find(n.partitions, partition) != n.partitions.end();
  };
  return (d.partitions.empty() || std::ranges::any_of(d.partitions, is_of)) &&
         !std::ranges::binary_search(d.excluded, n.name) &&
         satisfies(n.features, d.constraint).value_or(false);
}

}  // namespace

NodeKinds::NodeKinds(const std::vector<QueueNode> &nodes, const ClassOf &class_of,
                     const std::set<Demands> &demands) {
  for (const Demands &d : demands) index_.emplace(d, index_.size());
  std::map<std::pair<schedule::ClassIndex, std::vector<bool>>, Kind> kinds;
  for (const QueueNode &n : nodes) {
    std::optional<schedule::ClassIndex> c = class_of(n);
    if (!c) continue;
    std::vector<bool> allowed;
    for (const auto &[d, position] : index_) allowed.push_back(allows(d, n));
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

bool NodeKinds::has_place_for(const Demands &d, unsigned nodes) const {
  for (Kind k = 0; k < count(); k++)
    if (allowed(d, k) && nodes_[k] >= nodes) return true;
  return false;
}

}  // namespace ckpt::tools
