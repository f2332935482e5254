// SPDX-License-Identifier: Apache-2.0
//
// The state on which a policy decides: the reservations on each class.
#pragma once

#include <vector>

#include "schedule/plan/calendar.h"

namespace ckpt::schedule {

// A part of a job's run, without a gap, on one class. It begins with the restore and ends with the
// checkpoint, where it has them.
struct Piece {
  ClassIndex on = 0;
  Ticks begin = 0, end = 0;
  MoveCost cost;  // part of the time between begin and end
};

// The pieces of one job in the order of time; they do not overlap.
using Plan = std::vector<Piece>;

struct ClassState {
  ResourceClass of;
  Calendar calendar;
  // The latest begin of a job that was planned first come, first served.
  Ticks last_start = 0;

  explicit ClassState(const ResourceClass &c) : of(c), calendar(c.nodes) {}
};

struct Cluster {
  std::vector<ClassState> classes;

  explicit Cluster(const std::vector<ResourceClass> &of) {
    for (const ResourceClass &c : of) classes.emplace_back(c);
  }
  void advance(Ticks now) {
    for (ClassState &c : classes) c.calendar.advance(now);
  }
};

}  // namespace ckpt::schedule
