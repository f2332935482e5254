// SPDX-License-Identifier: Apache-2.0
#include "schedule/plan/calendar.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace ckpt::schedule;

namespace {

constexpr Ticks kEnd = 60;
constexpr unsigned kNodes = 8;

// A calendar of few ticks, one entry each.
struct Slow {
  std::vector<unsigned> free = std::vector<unsigned>(kEnd, kNodes);

  bool has(Ticks begin, Ticks end, unsigned n) const {
    for (Ticks t = begin; t < end; t++)
      if (free[static_cast<size_t>(t)] < n) return false;
    return true;
  }
  void add(Ticks begin, Ticks end, int n) {
    for (Ticks t = begin; t < end; t++) {
      unsigned &f = free[static_cast<size_t>(t)];
      f = static_cast<unsigned>(static_cast<int>(f) + n);
    }
  }
  Ticks free_for_ever(Ticks from, unsigned n) const {
    while (!has(from, kEnd, n)) from++;
    return from;
  }
};

}  // namespace

TEST_CASE("Calendar agrees with a list of every tick") {
  std::mt19937 chance(5);
  auto below = [&](Ticks n) { return static_cast<Ticks>(chance() % static_cast<unsigned>(n)); };
  for (int history = 0; history < 300; history++) {
    Calendar calendar(kNodes);
    Slow slow;
    Ticks now = 0;
    for (int step = 0; step < 40; step++) {
      if (chance() % 8 == 0) calendar.advance(now = std::min<Ticks>(kEnd - 2, now + below(5)));
      Ticks begin = now + below(kEnd - now - 1), end = begin + 1 + below(kEnd - begin - 1);
      auto n = static_cast<unsigned>(1 + below(kNodes));
      bool fits = slow.has(begin, end, n);
      REQUIRE(calendar.reserve(begin, end, n) == fits);
      if (fits) slow.add(begin, end, -static_cast<int>(n));
      if (fits && chance() % 4 == 0) {
        Ticks from = begin + below(end - begin);
        calendar.release(from, end, n);
        slow.add(from, end, static_cast<int>(n));
      }
      REQUIRE(calendar.free_for_ever(now, n) == slow.free_for_ever(now, n));
      std::optional<Interval> idle = calendar.idle_after(begin, n);
      REQUIRE(idle);
      Ticks first = begin;
      while (first < kEnd && !slow.has(first, first + 1, n)) first++;
      REQUIRE(idle->begin == first);
      Ticks last = first;
      while (last < kEnd && slow.has(last, last + 1, n)) last++;
      REQUIRE(std::min(idle->end, kEnd) == last);
      REQUIRE(calendar.free_at(begin) == slow.free[static_cast<size_t>(begin)]);
    }
  }
}

namespace {

// A calendar that is a list of steps, and looks at each of them.
struct Plain {
  std::vector<Step> steps;

  size_t split(Ticks t) {
    size_t i = 0;
    while (i + 1 < steps.size() && steps[i + 1].from <= t) i++;
    if (steps[i].from == t) return i;
    steps.insert(steps.begin() + static_cast<ptrdiff_t>(i) + 1, {t, steps[i].free});
    return i + 1;
  }
  void add(Ticks begin, Ticks end, int n) {
    size_t first = split(begin), last = split(end);
    for (size_t i = first; i < last; i++)
      steps[i].free = static_cast<unsigned>(static_cast<int>(steps[i].free) + n);
  }
  // In order, without what lies before `from`.
  std::vector<Interval> idle(Ticks from, unsigned n) const {
    std::vector<Interval> all;
    for (size_t i = 0; i < steps.size(); i++) {
      const Ticks begin = std::max(from, steps[i].from);
      const Ticks end = i + 1 < steps.size() ? steps[i + 1].from : Calendar::kForever;
      if (steps[i].free < n || begin >= end) continue;
      if (!all.empty() && all.back().end == begin)
        all.back().end = end;
      else
        all.push_back({begin, end});
    }
    return all;
  }
};

void check_searches(const Calendar &calendar, const Plain &plain, Ticks now, Ticks from, unsigned n,
                    Ticks length) {
  const std::vector<Interval> all = plain.idle(from, n), before = plain.idle(now, n);
  auto fits = std::find_if(all.begin(), all.end(),
                           [&](const Interval &i) { return i.end - i.begin >= length; });
  std::optional<Interval> idle = calendar.idle_after(from, n, length);
  REQUIRE(idle.has_value() == (fits != all.end()));
  if (idle) REQUIRE((idle->begin == fits->begin && idle->end == fits->end));
  Ticks since = from;
  for (const Interval &i : before)
    if (i.begin < from && i.end >= from) since = i.begin;
  REQUIRE(std::max(now, calendar.idle_since(from, n)) == since);
  const Ticks open = before.empty() || before.back().end < Calendar::kForever ? Calendar::kForever
                                                                              : before.back().begin;
  REQUIRE(calendar.free_for_ever(now, n) == std::max(now, open));
}

}  // namespace

TEST_CASE("a Calendar of many thousand steps finds what a plain list finds") {
  constexpr unsigned kMany = 512;
  std::mt19937 chance(11);
  auto below = [&](Ticks n) {
    return static_cast<Ticks>(chance() % static_cast<unsigned long>(n));
  };
  Calendar calendar(kMany);
  Plain plain{{{0, kMany}}};
  Ticks now = 0;
  for (int i = 0; i < 30'000; i++) {
    if (chance() % 16 == 0) calendar.advance(now += below(100));
    // Jobs of all sizes, mostly small ones, of which some must wait for others.
    const auto n = std::max(1u, static_cast<unsigned>(kMany >> below(10)) - (chance() % 3 == 0));
    const Ticks length = 1 + below(4000);
    std::optional<Interval> idle = calendar.idle_after(now + below(1000), n, length);
    REQUIRE(idle);
    const Ticks end = idle->begin + length;
    REQUIRE(calendar.reserve(idle->begin, end, n));
    plain.add(idle->begin, end, -static_cast<int>(n));
    if (chance() % 4 == 0) {
      const Ticks from = std::max(now, idle->begin + below(length));
      if (from < end) plain.add(from, end, static_cast<int>(n));
      calendar.release(from, end, n);
    }
    if (i % 50 == 0)
      for (unsigned wanted : {1u, 128u, kMany, n, 129u, static_cast<unsigned>(1 + below(kMany))}) {
        const Ticks from = now + below(40'000);
        check_searches(calendar, plain, now, from, wanted, 1 + below(6000));
        // The longest of those that end is the only one that is found.
        Ticks longest = 1;
        for (const Interval &one : plain.idle(now, wanted))
          if (one.end < Calendar::kForever) longest = std::max(longest, one.end - one.begin);
        for (Ticks wished : {longest, longest + 1})
          check_searches(calendar, plain, now, now, wanted, wished);
      }
  }
  CHECK(calendar.history().size() > 10'000);
  REQUIRE(calendar.idle_after(now, kMany + 1) == std::nullopt);
}

TEST_CASE("more nodes than there are are never free") {
  Calendar calendar(4);
  CHECK_FALSE(calendar.idle_after(0, 5));
  CHECK_FALSE(calendar.reserve(0, 10, 5));
  CHECK(calendar.free_for_ever(0, 5) == Calendar::kForever);
}

// 17 nodes are free for longer than the 16 of their level say: until the reservation at 1000, which
// leaves 16.
TEST_CASE("an interval may end where a power of two nodes stays free") {
  Calendar calendar(40);
  for (Ticks t = 0; t < 600; t += 2) REQUIRE(calendar.reserve(t, t + 1, 40));
  REQUIRE(calendar.reserve(1000, 2000, 24));
  std::optional<Interval> idle = calendar.idle_after(0, 17, 200);
  REQUIRE(idle);
  CHECK((idle->begin == 599 && idle->end == 1000));
  CHECK(calendar.idle_after(0, 16, 200)->end == Calendar::kForever);
}
