// SPDX-License-Identifier: Apache-2.0
#include "schedule/plan/calendar.h"

#include <algorithm>

namespace ckpt::schedule {
namespace {

// The search of Calendar::idle_after, from left to right.
class IdleSearch {
 public:
  IdleSearch(Ticks from, unsigned n, Ticks length)
      : from_(from), n_(n), length_(length), level_(idle_level(n)), exact_(n == 1u << level_) {}

  // Whether the interval was found, which then is `found`.
  bool look_at(const Step &s) {
    if (s.free >= n_) {
      if (open_ == kForever) open_ = std::max(from_, s.from);
      return false;
    }
    if (open_for(s.from) >= length_) {
      found = {open_, s.from};
      return true;
    }
    open_ = kForever;
    return false;
  }

  // Whether no such interval ends in a block or group that ends at `end`; then it was skipped.
  template <class Stretch>
  bool skip(const Stretch &stretch, Ticks end) {
    if (stretch.most() < n_) {
      if (open_for(stretch.from()) >= length_) return false;
      open_ = kForever;
      return true;
    }
    if (stretch.least() >= n_) {
      open_ = std::min(open_, stretch.from());
      return true;
    }
    const IdleRuns &runs = stretch.runs(level_);
    const Ticks begin = std::min(open_, stretch.from());
    if (runs.longest >= length_ || std::min(runs.first_busy, end) - begin >= length_) return false;
    // For `n_` nodes, an interval may end in one that is still open on their level.
    if (!exact_ && runs.open_since != kForever && end - runs.open_since >= length_) return false;
    open_ = stretch.open_since(n_);
    return true;
  }

  std::optional<Interval> at_the_end() const {
    if (open_ == kForever) return {};
    return Interval{open_, kForever};
  }

  Interval found;

 private:
  Ticks open_for(Ticks until) const { return open_ == kForever ? 0 : until - open_; }

  const Ticks from_;
  const unsigned n_;
  const Ticks length_;
  const unsigned level_;
  const bool exact_;
  Ticks open_ = kForever;  // since when the steps so far are idle; kForever: they are not
};

}  // namespace

Calendar::At Calendar::block_at(Ticks t) const {
  auto after = std::upper_bound(groups_.begin() + 1, groups_.end(), t,
                                [](Ticks time, const StepGroup &g) { return time < g.from(); });
  const size_t group = static_cast<size_t>(after - groups_.begin()) - 1;
  return {group, groups_[group].index_of(t)};
}

bool Calendar::next(At &at) const {
  if (++at.block < groups_[at.group].size()) return true;
  at.block = 0;
  return ++at.group < groups_.size();
}

bool Calendar::previous(At &at) const {
  if (at.block == 0) {
    if (at.group == 0) return false;
    at.block = groups_[--at.group].size();
  }
  at.block--;
  return true;
}

Ticks Calendar::end_of(At at) const { return next(at) ? block(at).from() : kForever; }

void Calendar::advance(Ticks now) {
  for (;;) {
    StepGroup &g = groups_[0];
    const Ticks end = end_of({0, 0});
    if (end > now) break;
    const std::vector<Step> &steps = g.block(0).steps();
    past_.insert(past_.end(), steps.begin(), steps.end());
    g.drop_first();
    if (g.size() == 0) groups_.erase(groups_.begin());
  }
  const size_t before = past_.size();
  groups_[0].block(0).drop_before(now, past_);
  if (past_.size() > before) groups_[0].changed(0);
}

void Calendar::split_at(Ticks t) {
  const At at = block_at(t);
  block(at).split_at(t);
  groups_[at.group].changed(at.block);
  if (groups_[at.group].size() <= StepGroup::kMost) return;
  StepGroup rest = groups_[at.group].split_off();
  groups_.insert(groups_.begin() + static_cast<ptrdiff_t>(at.group) + 1, std::move(rest));
}

void Calendar::add(Ticks begin, Ticks end, i64 n) {
  split_at(begin);
  split_at(end);
  At at = block_at(begin);
  do {
    if (block(at).from() > end) return;  // the step at `end` may be merged with the one before
    block(at).add(begin, end, n);
    groups_[at.group].changed(at.block);
  } while (next(at));
}

bool Calendar::reserve(Ticks begin, Ticks end, unsigned n) {
  if (!is_idle(begin, end, n)) return false;
  if (begin < end) add(begin, end, -static_cast<i64>(n));
  return true;
}

bool Calendar::is_idle(Ticks begin, Ticks end, unsigned n) const {
  if (begin >= end) return true;
  std::optional<Interval> idle = idle_after(begin, n);
  return idle && idle->begin <= begin && idle->end >= end;
}

void Calendar::release(Ticks begin, Ticks end, unsigned n) {
  if (begin < end) add(begin, end, n);
}

std::optional<Interval> Calendar::idle_after(Ticks from, unsigned n, Ticks length) const {
  if (n == 0) return Interval{from, kForever};
  IdleSearch search(from, n, length);
  At at = block_at(from);
  for (bool first = true, more = true; more; first = false) {
    const StepGroup &g = groups_[at.group];
    if (at.block == 0 && !first && search.skip(g, end_of({at.group, g.size() - 1}))) {
      at = {at.group + 1, 0};
      more = at.group < groups_.size();
      continue;
    }
    const StepBlock &b = block(at);
    if (first || !search.skip(b, end_of(at)))
      for (size_t i = first ? b.index_of(from) : 0; i < b.steps().size(); i++)
        if (search.look_at(b.steps()[i])) return search.found;
    more = next(at);
  }
  return search.at_the_end();
}

Ticks Calendar::idle_since(Ticks t, unsigned n) const {
  At at = block_at(t - 1);
  for (size_t i = block(at).index_of(t - 1);; i = block(at).steps().size() - 1) {
    const std::vector<Step> &steps = block(at).steps();
    if (block(at).least() >= n) {
      t = steps[0].from;
    } else {
      for (;; i--) {
        if (steps[i].free < n) return t;
        t = steps[i].from;
        if (i == 0) break;
      }
    }
    if (!previous(at)) return t;
  }
}

Ticks Calendar::free_for_ever(Ticks from, unsigned n) const {
  Ticks after = kForever;
  for (size_t group = groups_.size(); group-- > 0;) {
    const StepGroup &g = groups_[group];
    for (size_t b = g.size(); b-- > 0 && g.least() < n;) {
      const std::vector<Step> &steps = g.block(b).steps();
      for (size_t i = steps.size(); i-- > 0 && g.block(b).least() < n;) {
        if (steps[i].free < n) return after == kForever ? kForever : std::max(from, after);
        after = steps[i].from;
      }
      after = steps[0].from;
    }
    after = g.from();
  }
  return from;
}

unsigned Calendar::free_at(Ticks t) const {
  const StepBlock &b = block(block_at(t));
  return b.steps()[b.index_of(t)].free;
}

std::vector<Step> Calendar::history() const {
  std::vector<Step> all = past_;
  for (const StepGroup &g : groups_)
    for (size_t i = 0; i < g.size(); i++)
      all.insert(all.end(), g.block(i).steps().begin(), g.block(i).steps().end());
  return all;
}

}  // namespace ckpt::schedule
