// SPDX-License-Identifier: Apache-2.0
#include "schedule/plan/calendar.h"

#include <doctest/doctest.h>

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
    }
  }
}

TEST_CASE("more nodes than there are are never free") {
  Calendar calendar(4);
  CHECK_FALSE(calendar.idle_after(0, 5));
  CHECK_FALSE(calendar.reserve(0, 10, 5));
  CHECK(calendar.free_for_ever(0, 5) == Calendar::kForever);
}
