// SPDX-License-Identifier: Apache-2.0
#include "schedule/plan/calendar.h"

#include <algorithm>

namespace ckpt::schedule {

size_t Calendar::step_at(Ticks t) const {
  auto after = std::upper_bound(steps_.begin() + static_cast<ptrdiff_t>(now_), steps_.end(), t,
                                [](Ticks time, const Step &s) { return time < s.from; });
  return static_cast<size_t>(after - steps_.begin()) - 1;
}

void Calendar::advance(Ticks now) {
  while (now_ + 1 < steps_.size() && steps_[now_ + 1].from <= now) now_++;
}

// Makes a step begin at `t` and returns its index.
size_t Calendar::split_at(Ticks t) {
  size_t i = step_at(t);
  if (steps_[i].from == t) return i;
  steps_.insert(steps_.begin() + static_cast<ptrdiff_t>(i) + 1, {t, steps_[i].free});
  return i + 1;
}

void Calendar::add(Ticks begin, Ticks end, int n) {
  size_t first = split_at(begin), last = split_at(end);
  for (size_t i = first; i < last; i++)
    steps_[i].free = static_cast<unsigned>(static_cast<int>(steps_[i].free) + n);
}

bool Calendar::reserve(Ticks begin, Ticks end, unsigned n) {
  if (begin >= end) return true;
  std::optional<Interval> idle = idle_after(begin, n);
  if (!idle || idle->begin > begin || idle->end < end) return false;
  add(begin, end, -static_cast<int>(n));
  return true;
}

void Calendar::release(Ticks begin, Ticks end, unsigned n) {
  if (begin < end) add(begin, end, static_cast<int>(n));
}

std::optional<Interval> Calendar::idle_after(Ticks from, unsigned n) const {
  size_t i = step_at(from);
  while (i < steps_.size() && steps_[i].free < n) i++;
  if (i == steps_.size()) return {};
  Interval idle{std::max(from, steps_[i].from), kForever};
  while (++i < steps_.size())
    if (steps_[i].free < n) {
      idle.end = steps_[i].from;
      break;
    }
  return idle;
}

Ticks Calendar::free_for_ever(Ticks from, unsigned n) const {
  size_t i = steps_.size();
  while (i > now_ + 1 && steps_[i - 1].free >= n) i--;
  // Now steps_[i - 1] has too few, or it is the present one.
  if (steps_[i - 1].free >= n) return from;
  return i == steps_.size() ? kForever : std::max(from, steps_[i].from);
}

}  // namespace ckpt::schedule
