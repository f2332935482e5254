// SPDX-License-Identifier: Apache-2.0
//
// The moves of running jobs that would be made if nodes were idle for so long.
#pragma once

#include <vector>

#include "schedule/plan/cluster.h"

namespace ckpt::schedule {

class PossibleMoves {
 public:
  void add(ClassIndex to, Ticks end, unsigned nodes) { moves_.push_back({to, end, nodes}); }

  // Whether one of them can be made. What is planned makes no node idle, so those that cannot be
  // made are forgotten.
  bool any(const Cluster &cluster, Ticks now) {
    while (!moves_.empty()) {
      const Move &m = moves_.back();
      if (cluster.classes[m.to].calendar.is_idle(now, m.end, m.nodes)) return true;
      moves_.pop_back();
    }
    return false;
  }

 private:
  struct Move {
    ClassIndex to;
    Ticks end;
    unsigned nodes;
  };
  std::vector<Move> moves_;
};

}  // namespace ckpt::schedule
