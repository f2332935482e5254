// SPDX-License-Identifier: Apache-2.0
#include "tools/session/turns.h"

#include <algorithm>

namespace ckpt::tools {

Turns::Turns(std::vector<uid_t> users, Limits limits) : limits_(limits) {
  for (uid_t user : users) programs_.push_back({user});
}

size_t Turns::under_way(uid_t user) const {
  return static_cast<size_t>(std::ranges::count_if(programs_, [user](const Program &p) {
    return p.user == user && (p.state == State::UnderWay || p.state == State::Cancelled);
  }));
}

// For a program of this user. Its own long ones count for it, so a user has no more than all
// slots.
size_t Turns::slots_in_use(uid_t for_user, Time now) const {
  return static_cast<size_t>(std::ranges::count_if(programs_, [&](const Program &p) {
    if (p.state != State::UnderWay && p.state != State::Cancelled) return false;
    return p.user == for_user || now < p.since + limits_.long_work;
  }));
}

std::optional<Turns::Time> Turns::end_of(uid_t user) const {
  auto began = began_.find(user);
  if (began == began_.end() || !limits_.user_time) return std::nullopt;
  return began->second + *limits_.user_time;
}

std::optional<size_t> Turns::next(Time now) {
  std::optional<size_t> best;
  for (size_t i = 0; i < programs_.size(); i++) {
    const Program &p = programs_[i];
    if (p.state != State::Waiting || slots_in_use(p.user, now) >= limits_.slots) continue;
    if (!best || under_way(p.user) < under_way(programs_[*best].user)) best = i;
  }
  if (!best) return best;
  Program &p = programs_[*best];
  p.state = State::UnderWay;
  p.since = now;
  began_.try_emplace(p.user, now);
  return best;
}

void Turns::ended(size_t program) { programs_[program].state = State::Ended; }

std::vector<Turns::GivenUp> Turns::give_up(Time now) {
  std::vector<GivenUp> all;
  for (size_t i = 0; i < programs_.size(); i++) {
    Program &p = programs_[i];
    if (p.state != State::Waiting && p.state != State::UnderWay) continue;
    std::optional<Time> end = end_of(p.user);
    if (!end || now < *end) continue;
    bool under_way = p.state == State::UnderWay;
    all.push_back({i, under_way});
    p.state = under_way ? State::Cancelled : State::Ended;
  }
  return all;
}

std::optional<Turns::Time> Turns::wake(Time now) const {
  std::optional<Time> first;
  auto sooner = [&first](Time t) { first = std::min(first.value_or(t), t); };
  for (const Program &p : programs_) {
    bool open = p.state == State::Waiting || p.state == State::UnderWay;
    if (std::optional<Time> end = end_of(p.user); open && end) sooner(*end);
    bool counts = p.state == State::UnderWay || p.state == State::Cancelled;
    if (counts && now < p.since + limits_.long_work) sooner(p.since + limits_.long_work);
  }
  return first;
}

bool Turns::all_ended() const {
  return std::ranges::all_of(programs_, [](const Program &p) { return p.state == State::Ended; });
}

}  // namespace ckpt::tools
