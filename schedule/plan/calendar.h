// SPDX-License-Identifier: Apache-2.0
//
// The nodes of one class that are free at each time, past and future: a step function, kept as the
// times at which it changes. Reservations only touch times from now on, so the past is a history,
// from which waits can be classified afterwards.
//
// Cost: a reservation moves the steps that follow its begin, and a search for idle intervals walks
// over them: both grow with the reservations that lie ahead, not with those of the past. The
// history takes 16 bytes a step, about two steps a reservation.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "schedule/plan/job.h"

namespace ckpt::schedule {

struct Interval {
  Ticks begin = 0, end = 0;
};

class Calendar {
 public:
  static constexpr Ticks kForever = INT64_MAX / 4;
  struct Step {
    Ticks from;
    unsigned free;  // until the next step
  };

  explicit Calendar(unsigned nodes) : steps_{{0, nodes}} {}

  // Times before `now` are not asked for and not changed from here on.
  void advance(Ticks now);
  // `n` nodes from `begin` until `end`. False, and no change, where fewer are free.
  bool reserve(Ticks begin, Ticks end, unsigned n);
  // Releases a part of a reservation.
  void release(Ticks begin, Ticks end, unsigned n);

  // The first interval that ends after `from` and in which `n` nodes are free throughout, without
  // what lies before `from`. Its end is kForever if nothing follows.
  std::optional<Interval> idle_after(Ticks from, unsigned n) const;
  // The time, at least `from`, from which on `n` nodes are free without end.
  Ticks free_for_ever(Ticks from, unsigned n) const;

  std::span<const Step> history() const { return steps_; }

 private:
  size_t step_at(Ticks t) const;
  size_t split_at(Ticks t);
  void add(Ticks begin, Ticks end, int n);

  std::vector<Step> steps_;  // by time; the last one holds for ever
  size_t now_ = 0;           // the step that contains the present
};

}  // namespace ckpt::schedule
