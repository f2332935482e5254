// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/newcomers.h"

#include <doctest/doctest.h>

using namespace ckpt;
using namespace std::chrono_literals;

namespace {

const Newcomers::Time kStart{1000s};

struct Few : Newcomers {
  Few()
      : Newcomers({.waiting = 6,
                   .waiting_of_source = 4,
                   .greeting = 3,
                   .greeting_of_source = 2,
                   .time = 15s,
                   .fair_time = 2s}) {}
  Id come(const std::string &source, Time now = kStart) { return enter(source, now).id; }
  Id speak(const std::string &source, Time now = kStart) {
    Id id = come(source, now);
    spoke(id);
    return id;
  }
};

}  // namespace

TEST_CASE("a newcomer greets when it has spoken") {
  Few n;
  Newcomers::Id a = n.come("a");
  CHECK_FALSE(n.next(kStart));
  n.spoke(a);
  CHECK(n.wake() == Newcomers::Time{});
  auto next = n.next(kStart);
  REQUIRE(next);
  CHECK(next->id == a);
  CHECK_FALSE(next->instead_of);
  CHECK(n.greeting() == 1);
  n.leave(a);
  CHECK(n.greeting() == 0);
  CHECK_FALSE(n.wake());
}

TEST_CASE("the time is for the whole greeting, whatever comes in between") {
  Few n;
  Newcomers::Id silent = n.come("a"), slow = n.speak("a", kStart + 1s);
  REQUIRE(n.next(kStart + 1s));
  CHECK(n.wake() == kStart + 15s);
  CHECK(n.overdue(kStart + 15s - 1ns).empty());
  CHECK(n.overdue(kStart + 15s) == std::vector{silent});
  CHECK(n.overdue(kStart + 16s) == std::vector{slow});
  CHECK(n.greeting() == 0);
}

TEST_CASE("a source's silent newcomers make room for its next ones, the oldest first") {
  Few n;
  n.speak("a");
  Newcomers::Id first = n.come("a");
  n.come("a");
  n.come("a");
  auto e = n.enter("a", kStart);
  CHECK(e.instead_of == first);
  CHECK_FALSE(n.enter("b", kStart).instead_of);
}

TEST_CASE("without room the source with the most newcomers makes it") {
  Few n;
  n.come("b");
  n.come("c");
  Newcomers::Id first = n.come("a");
  for (int i = 0; i < 3; i++) n.come("a");
  CHECK(n.enter("d", kStart).instead_of == first);
}

TEST_CASE("sources take turns in greeting, and each has a limit") {
  Few n;
  for (int i = 0; i < 3; i++) n.speak("a");
  auto first = n.next(kStart);
  Newcomers::Id b = n.speak("b");
  CHECK(n.next(kStart)->id == b);
  CHECK(n.next(kStart));
  CHECK(n.greeting() == 3);
  CHECK_FALSE(n.next(kStart));
  n.leave(b);
  CHECK_FALSE(n.next(kStart));  // there is room, but not for a third of this source
  n.leave(first->id);
  CHECK(n.next(kStart));
}

TEST_CASE("a stalled greeting gives its place away after the fair time, if another one needs it") {
  Few n;
  Newcomers::Id old = n.speak("a");
  REQUIRE(n.next(kStart));
  n.speak("a");
  REQUIRE(n.next(kStart + 1s));
  SUBCASE("to its own source") {
    Newcomers::Id honest = n.speak("a", kStart + 1s);
    CHECK_FALSE(n.next(kStart + 2s - 1ns));
    CHECK(n.wake() == kStart + 2s);
    auto next = n.next(kStart + 2s);
    REQUIRE(next);
    CHECK(next->id == honest);
    CHECK(next->instead_of == old);
  }
  SUBCASE("to another source") {
    n.speak("b");
    REQUIRE(n.next(kStart + 1s));
    Newcomers::Id honest = n.speak("c", kStart + 1s);
    CHECK_FALSE(n.next(kStart + 1s));
    auto next = n.next(kStart + 2s);
    REQUIRE(next);
    CHECK(next->id == honest);
    CHECK(next->instead_of == old);
  }
  SUBCASE("but not otherwise") {
    CHECK(n.wake() == kStart + 15s);
    CHECK_FALSE(n.next(kStart + 10s));
  }
}

TEST_CASE("a source takes no place of one that has fewer") {
  Few n;
  n.speak("a");
  n.next(kStart);
  n.speak("b");
  n.next(kStart);
  n.speak("b");
  n.next(kStart);
  n.speak("c");
  auto next = n.next(kStart + 10s);
  REQUIRE((next && next->instead_of));
  CHECK(n.greeting() == 3);
  n.speak("a");  // a has one, b one, c one
  CHECK(n.next(kStart + 14s)->instead_of);
}

TEST_CASE("the newest of a source greets first, so that a flood does not delay it") {
  Few n;
  n.speak("a");
  n.speak("a");
  Newcomers::Id honest = n.speak("a");
  CHECK(n.next(kStart)->id == honest);
}

TEST_CASE("an honest peer is admitted during a flood of silent and of stalled ones of its source") {
  Newcomers n({});
  Newcomers::Time now = kStart;
  for (int round = 0; round < 100; round++) {
    for (int i = 0; i < 100; i++) {
      Newcomers::Id id = n.enter("flood", now).id;
      if (i % 2) n.spoke(id);
    }
    Newcomers::Id honest = n.enter("flood", now).id;
    n.spoke(honest);
    bool greets = false;
    for (auto end = now + 3s; !greets && now < end; now += 100ms)
      while (auto next = n.next(now)) greets = greets || next->id == honest;
    CHECK(greets);
    n.leave(honest);
    (void)n.overdue(now);
  }
}
