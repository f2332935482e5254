// SPDX-License-Identifier: Apache-2.0
//
// The nodes of one class that are shared, for searches that look at few of them.
//
// Problem. A job that may share its node goes to the one on which it ends first. To know that end
// is expensive (share_node()), and most nodes are out of the question: they are too small, have no
// room for a long time, or a job that was planned before waits for them.
//
// Algorithm. A binary tree over the nodes in their order. Each of its places knows of the nodes
// below it the best of each figure, perhaps of different nodes: the most resources and room, the
// earliest start of a job that has to wait, the latest end of a reservation. What none of the nodes
// below could do even with the best of all figures, none of them can do. So a search that goes from
// the root to the places that are still possible misses nothing.
//
// Cost: the change of a node changes the places above it, as many as the logarithm of the nodes.
#pragma once

#include <limits>
#include <vector>

#include "schedule/contention/sharers.h"
#include "schedule/plan/job.h"

namespace ckpt::schedule {

// Of nodes without a job: nothing fits.
struct SharedSummary {
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  Resources has{0, 0, 0};
  Resources room{0, 0, 0};  // what is free now, where no job waits for it
  double later = kNever;    // seconds from now: no job that needs more than `room` starts before
  Ticks until = 0;          // the end of the node's reservation

  static SharedSummary best_of(const SharedSummary &a, const SharedSummary &b);
};

class SharedTree {
 public:
  static constexpr size_t kRoot = 1;

  // `nodes`: their numbers, ascending.
  explicit SharedTree(std::vector<size_t> nodes);

  void set(size_t node, const SharedSummary &of);

  const SharedSummary &operator[](size_t place) const { return places_[place]; }
  bool is_node(size_t place) const { return place >= leaves_; }
  // Of one that is no node.
  static size_t left(size_t place) { return 2 * place; }
  static size_t right(size_t place) { return 2 * place + 1; }
  // The place is the node itself, or has nodes with a summary below it.
  size_t first_node(size_t place) const;

 private:
  std::vector<size_t> nodes_;
  size_t leaves_;                      // a power of two
  std::vector<SharedSummary> places_;  // the parent of i is i / 2; the leaves are the last ones
};

}  // namespace ckpt::schedule
