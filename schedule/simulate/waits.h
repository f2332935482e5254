// SPDX-License-Identifier: Apache-2.0
//
// How long, within an interval, enough nodes of one class were idle (wait A of KS-5.5).
//
// Jobs ask for few different numbers of nodes, so the time for which at least n nodes were idle is
// summed up once for each n over the whole history; an interval is then a difference of two sums.
#pragma once

#include <unordered_map>

#include "schedule/plan/cluster.h"

namespace ckpt::schedule {

class IdleTime {
 public:
  explicit IdleTime(const Cluster &cluster) {
    for (const ClassState &c : cluster.classes) histories_.push_back(c.calendar.history());
  }

  // For how long some class had `n` idle nodes.
  Ticks within(const Interval &interval, unsigned n);

 private:
  struct Sum {
    Ticks from;
    Ticks before;  // idle time until `from`
    bool idle;     // from here to the next
  };
  const std::vector<Sum> &sums_for(unsigned n);
  static Ticks until(const std::vector<Sum> &sums, Ticks t);

  std::vector<std::vector<Step>> histories_;  // by class
  std::unordered_map<unsigned, std::vector<Sum>> sums_;
};

}  // namespace ckpt::schedule
