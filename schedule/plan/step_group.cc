// SPDX-License-Identifier: Apache-2.0
#include "schedule/plan/step_group.h"

namespace ckpt::schedule {

const IdleRuns &StepBlock::runs(unsigned level) const {
  return runs_.of(level, [&] {
    IdleRuns runs;
    const unsigned wanted = 1u << level;
    for (const Step &s : steps_)
      runs.append({s.free < wanted ? s.from : kForever, s.free < wanted ? kForever : s.from, 0},
                  s.from);
    return runs;
  });
}

Ticks StepBlock::open_since(unsigned n) const {
  Ticks since = kForever;
  for (size_t i = steps_.size(); i-- > 0 && steps_[i].free >= n;) since = steps_[i].from;
  return since;
}

size_t StepBlock::index_of(Ticks t) const {
  auto after = std::upper_bound(steps_.begin() + 1, steps_.end(), t,
                                [](Ticks time, const Step &s) { return time < s.from; });
  return static_cast<size_t>(after - steps_.begin()) - 1;
}

void StepBlock::split_at(Ticks t) {
  const size_t i = index_of(t);
  if (steps_[i].from != t)
    steps_.insert(steps_.begin() + static_cast<ptrdiff_t>(i) + 1, {t, steps_[i].free});
}

void StepBlock::add(Ticks begin, Ticks end, i64 n) {
  auto first = std::lower_bound(steps_.begin(), steps_.end(), begin,
                                [](const Step &s, Ticks time) { return s.from < time; });
  auto last = first;
  for (; last != steps_.end() && last->from < end; last++)
    last->free = static_cast<unsigned>(static_cast<i64>(last->free) + n);
  const size_t a = static_cast<size_t>(first - steps_.begin());
  merge(static_cast<size_t>(last - steps_.begin()));
  merge(a);
  count();
}

// Drops the step at `i` if it is as the one before.
void StepBlock::merge(size_t i) {
  if (i > 0 && i < steps_.size() && steps_[i].free == steps_[i - 1].free)
    steps_.erase(steps_.begin() + static_cast<ptrdiff_t>(i));
}

void StepBlock::drop_before(Ticks now, std::vector<Step> &past) {
  auto present = steps_.begin() + static_cast<ptrdiff_t>(index_of(now));
  if (present == steps_.begin()) return;
  past.insert(past.end(), steps_.begin(), present);
  steps_.erase(steps_.begin(), present);
  count();
}

std::unique_ptr<StepBlock> StepBlock::split_off() {
  const auto half = steps_.begin() + static_cast<ptrdiff_t>(steps_.size() / 2);
  auto rest = std::make_unique<StepBlock>(std::vector<Step>(half, steps_.end()));
  steps_.erase(half, steps_.end());
  count();
  return rest;
}

void StepBlock::count() {
  least_ = most_ = steps_[0].free;
  for (const Step &s : steps_) {
    least_ = std::min(least_, s.free);
    most_ = std::max(most_, s.free);
  }
  runs_.forget();
}

StepGroup::StepGroup(Step step) {
  blocks_.push_back(std::make_unique<StepBlock>(std::vector<Step>{step}));
  count();
}

const IdleRuns &StepGroup::runs(unsigned level) const {
  return runs_.of(level, [&] {
    IdleRuns runs;
    for (const auto &b : blocks_) runs.append(b->runs(level), b->from());
    return runs;
  });
}

Ticks StepGroup::open_since(unsigned n) const {
  Ticks since = kForever;
  for (size_t i = blocks_.size(); i-- > 0;) {
    since = std::min(since, blocks_[i]->open_since(n));
    if (blocks_[i]->least() < n) break;
  }
  return since;
}

size_t StepGroup::index_of(Ticks t) const {
  auto after = std::upper_bound(blocks_.begin() + 1, blocks_.end(), t,
                                [](Ticks time, const auto &b) { return time < b->from(); });
  return static_cast<size_t>(after - blocks_.begin()) - 1;
}

void StepGroup::changed(size_t i) {
  if (blocks_[i]->steps().size() > StepBlock::kMost)
    blocks_.insert(blocks_.begin() + static_cast<ptrdiff_t>(i) + 1, blocks_[i]->split_off());
  count();
}

StepGroup StepGroup::split_off() {
  StepGroup rest;
  const auto half = blocks_.begin() + static_cast<ptrdiff_t>(blocks_.size() / 2);
  std::move(half, blocks_.end(), std::back_inserter(rest.blocks_));
  blocks_.erase(half, blocks_.end());
  rest.count();
  count();
  return rest;
}

void StepGroup::count() {
  runs_.forget();
  if (blocks_.empty()) return;
  least_ = blocks_[0]->least();
  most_ = blocks_[0]->most();
  for (const auto &b : blocks_) {
    least_ = std::min(least_, b->least());
    most_ = std::max(most_, b->most());
  }
}

}  // namespace ckpt::schedule
