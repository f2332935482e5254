// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/newcomers.h"

#include <algorithm>

namespace ckpt {

Newcomers::Count Newcomers::of(const std::string &source) const {
  auto found = sources_.find(source);
  return found == sources_.end() ? Count{} : found->second;
}

// To be called while there is any newcomer.
const std::string &Newcomers::largest_source(size_t Count::*count) const {
  return std::ranges::max_element(sources_, {}, [&](const auto &s) { return s.second.*count; })
      ->first;
}

void Newcomers::change(const std::string &source, size_t Count::*count, int by) {
  total_.*count += static_cast<size_t>(by);
  Count &c = sources_[source];
  c.*count += static_cast<size_t>(by);
  if (c.waiting + c.greeting == 0) sources_.erase(source);
}

Newcomers::Newcomer Newcomers::remove(List::iterator n) {
  Newcomer gone = std::move(*n);
  all_.erase(n);
  change(gone.source, gone.state == State::Greeting ? &Count::greeting : &Count::waiting, -1);
  return gone;
}

Newcomers::Id Newcomers::expel_waiting(const std::string &source) {
  auto first_in = [&](State state) {
    return std::ranges::find_if(
        all_, [&](const Newcomer &n) { return n.source == source && n.state == state; });
  };
  auto first = first_in(State::Silent);
  return remove(first != all_.end() ? first : first_in(State::Spoke)).id;
}

Newcomers::Entered Newcomers::enter(const std::string &source, Time now) {
  Entered e{++last_};
  if (of(source).waiting >= limits_.waiting_of_source)
    e.instead_of = expel_waiting(source);
  else if (total_.waiting >= limits_.waiting)
    e.instead_of = expel_waiting(std::string(largest_source(&Count::waiting)));
  all_.push_back({e.id, source, now + limits_.time});
  change(source, &Count::waiting, 1);
  return e;
}

void Newcomers::spoke(Id id) {
  auto n = std::ranges::find(all_, id, &Newcomer::id);
  if (n != all_.end() && n->state == State::Silent) n->state = State::Spoke;
}

Newcomers::List::iterator Newcomers::next_to_greet() {
  auto best = all_.end();
  size_t fewest = 0;
  for (auto n = all_.begin(); n != all_.end(); ++n) {
    if (n->state != State::Spoke) continue;
    size_t greeting = of(n->source).greeting;
    if (best != all_.end() && greeting > fewest) continue;
    best = n;
    fewest = greeting;
  }
  return best;
}

bool Newcomers::has_place(const std::string &source) const {
  return of(source).greeting < limits_.greeting_of_source && total_.greeting < limits_.greeting;
}

// The newcomer whose place one of this source takes when the fair time is over; the end: none. A
// source takes no place of another one that has fewer than itself.
Newcomers::List::iterator Newcomers::replaceable_by(const std::string &source) {
  size_t own = of(source).greeting;
  const std::string &from =
      own >= limits_.greeting_of_source ? source : largest_source(&Count::greeting);
  auto oldest = all_.end();
  if (of(from).greeting < own) return oldest;
  for (auto n = all_.begin(); n != all_.end(); ++n)
    if (n->state == State::Greeting && n->source == from &&
        (oldest == all_.end() || n->greets_since < oldest->greets_since))
      oldest = n;
  return oldest;
}

std::optional<Newcomers::Entered> Newcomers::next(Time now) {
  auto n = next_to_greet();
  if (n == all_.end()) return std::nullopt;
  Entered e{n->id};
  if (!has_place(n->source)) {
    auto other = replaceable_by(n->source);
    if (other == all_.end() || now < other->greets_since + limits_.fair_time) return std::nullopt;
    e.instead_of = remove(other).id;
  }
  n->state = State::Greeting;
  n->greets_since = now;
  change(n->source, &Count::greeting, 1);
  change(n->source, &Count::waiting, -1);
  return e;
}

void Newcomers::leave(Id id) {
  auto n = std::ranges::find(all_, id, &Newcomer::id);
  if (n != all_.end()) remove(n);
}

std::vector<Newcomers::Id> Newcomers::overdue(Time now) {
  std::vector<Id> ids;
  while (!all_.empty() && all_.front().until <= now) ids.push_back(remove(all_.begin()).id);
  return ids;
}

std::optional<Newcomers::Time> Newcomers::wake() {
  std::optional<Time> overdue = first_overdue();
  auto n = next_to_greet();
  if (n == all_.end()) return overdue;
  if (has_place(n->source)) return Time{};  // at once
  auto other = replaceable_by(n->source);
  return other == all_.end() ? overdue
                             : std::min(*overdue, other->greets_since + limits_.fair_time);
}

std::optional<Newcomers::Time> Newcomers::first_overdue() const {
  return all_.empty() ? std::nullopt : std::optional(all_.front().until);
}

}  // namespace ckpt
