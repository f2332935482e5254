// SPDX-License-Identifier: Apache-2.0
#include "schedule/steer/node_pool.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace ckpt::schedule {

NodePool::NodePool(const std::vector<LiveNode> &nodes, size_t classes)
    : nodes_(nodes), occupied_(nodes.size()), classes_(classes) {
  using Key = std::tuple<ClassIndex, unsigned, unsigned, double>;
  std::map<Key, size_t> known;
  index_.reserve(nodes.size());
  for (size_t i = 0; i < nodes.size(); i++) {
    const LiveNode &n = nodes[i];
    Class &c = classes_[n.on];
    index_[n.name] = i;
    c.nodes.all.push_back(i);
    c.free++;
    auto [alike, added] =
        known.try_emplace({n.on, n.has.cores, n.has.gpus, n.has.megabytes}, c.alike.size());
    if (added) c.alike.push_back({n.has, {}});
    c.alike[alike->second].nodes.all.push_back(i);
  }
}

std::optional<size_t> NodePool::find(const std::string &name) const {
  auto at = index_.find(name);
  return at == index_.end() ? std::nullopt : std::optional(at->second);
}

void NodePool::occupy(size_t i) {
  if (occupied_[i]) return;
  occupied_[i] = true;
  classes_[nodes_[i].on].free--;
}

void NodePool::skip_occupied(Nodes &n) const {
  while (n.begin < n.all.size() && occupied_[n.all[n.begin]]) n.begin++;
}

std::vector<size_t> NodePool::first_free(ClassIndex c, unsigned n) {
  if (classes_[c].free < n) return {};
  Nodes &nodes = classes_[c].nodes;
  skip_occupied(nodes);
  std::vector<size_t> free;
  for (size_t at = nodes.begin; free.size() < n; at++)
    if (!occupied_[nodes.all[at]]) free.push_back(nodes.all[at]);
  return free;
}

std::optional<size_t> NodePool::first_free(ClassIndex c, const Resources &needs) {
  std::optional<size_t> first;
  for (Alike &a : classes_[c].alike) {
    if (!needs.fits_in(a.has)) continue;
    skip_occupied(a.nodes);
    if (a.nodes.begin == a.nodes.all.size()) continue;
    first = std::min(first.value_or(nodes_.size()), a.nodes.all[a.nodes.begin]);
  }
  return first;
}

bool NodePool::has_room(ClassIndex c, const Resources &needs) const {
  return std::ranges::any_of(classes_[c].alike,
                             [&](const Alike &a) { return needs.fits_in(a.has); });
}

}  // namespace ckpt::schedule
