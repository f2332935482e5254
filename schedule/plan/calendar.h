// SPDX-License-Identifier: Apache-2.0
//
// The nodes of one class that are free at each time: a step function, kept as the times at which it
// changes. Reservations only touch times from now on, so the past is a history, from which waits
// can be classified afterwards.
//
// In an overloaded cluster a million steps lie ahead, and each job asks for idle intervals among
// them. So the steps ahead are a tree of three levels (StepGroup, StepBlock, Step), of which the
// upper two know what a search can skip (IdleSummary).
//
// Cost, with s steps ahead: a search for an interval of a certain length looks at about the cube
// root of s, and a reservation besides changes the steps between its begin and its end. The history
// takes 16 bytes a step, at most two steps a reservation.
#pragma once

#include <optional>
#include <vector>

#include "schedule/plan/step_group.h"

namespace ckpt::schedule {

struct Interval {
  Ticks begin = 0, end = 0;
};

class Calendar {
 public:
  static constexpr Ticks kForever = schedule::kForever;

  explicit Calendar(unsigned nodes) { groups_.push_back(StepGroup({0, nodes})); }

  // Times before `now` are not asked for and not changed from here on.
  void advance(Ticks now);
  // `n` nodes from `begin` until `end`. False, and no change, where fewer are free.
  bool reserve(Ticks begin, Ticks end, unsigned n);
  // Releases a part of a reservation.
  void release(Ticks begin, Ticks end, unsigned n);

  // Whether `n` nodes are free from `begin` until `end`.
  bool is_idle(Ticks begin, Ticks end, unsigned n) const;
  // The first interval that ends after `from` and in which `n` nodes are free throughout, without
  // what lies before `from`, if that is at least `length` (1 or more) long; otherwise the next such
  // interval.
  // Its end is kForever if nothing follows.
  std::optional<Interval> idle_after(Ticks from, unsigned n, Ticks length = 1) const;
  // Since when `n` nodes have been free until `t`, as far as it is not past; `t` if they are not.
  Ticks idle_since(Ticks t, unsigned n) const;
  // The time, at least `from`, from which on `n` nodes are free without end.
  Ticks free_for_ever(Ticks from, unsigned n) const;
  unsigned free_at(Ticks t) const;

  // All steps, past and future.
  std::vector<Step> history() const;

 private:
  struct At {
    size_t group, block;
  };
  At block_at(Ticks t) const;
  StepBlock &block(At at) { return groups_[at.group].block(at.block); }
  const StepBlock &block(At at) const { return groups_[at.group].block(at.block); }
  bool next(At &at) const;
  bool previous(At &at) const;
  Ticks end_of(At at) const;
  void split_at(Ticks t);
  void add(Ticks begin, Ticks end, i64 n);

  std::vector<Step> past_;
  std::vector<StepGroup> groups_;  // by time; the first step contains the present
};

}  // namespace ckpt::schedule
