// SPDX-License-Identifier: Apache-2.0
#include "schedule/steer/shared_tree.h"

#include <algorithm>
#include <bit>

namespace ckpt::schedule {
namespace {

Resources most_of(const Resources &a, const Resources &b) {
  return {std::max(a.cores, b.cores), std::max(a.gpus, b.gpus), std::max(a.megabytes, b.megabytes)};
}

}  // namespace

SharedSummary SharedSummary::best_of(const SharedSummary &a, const SharedSummary &b) {
  return {most_of(a.has, b.has), most_of(a.room, b.room), std::min(a.later, b.later),
          std::max(a.until, b.until)};
}

SharedTree::SharedTree(std::vector<size_t> nodes)
    : nodes_(std::move(nodes)),
      leaves_(std::bit_ceil(std::max<size_t>(1, nodes_.size()))),
      places_(2 * leaves_) {}

void SharedTree::set(size_t node, const SharedSummary &of) {
  auto at = std::lower_bound(nodes_.begin(), nodes_.end(), node);
  size_t place = leaves_ + static_cast<size_t>(at - nodes_.begin());
  places_[place] = of;
  while ((place /= 2) >= kRoot)
    places_[place] = SharedSummary::best_of(places_[left(place)], places_[right(place)]);
}

size_t SharedTree::first_node(size_t place) const {
  while (!is_node(place)) place = left(place);
  return nodes_[place - leaves_];
}

}  // namespace ckpt::schedule
