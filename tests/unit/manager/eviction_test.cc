// SPDX-License-Identifier: Apache-2.0
//
// Which program leaves, where its contents go, and what happens when it does not leave.
#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;
using namespace std::chrono_literals;

TEST_CASE("contents go to host memory, then to disk; after that no program is evicted") {
  Settings s = small_settings();
  s.host_bytes = 50;
  s.disk_folder = "/spool";
  s.disk_bytes = 45;
  Node n(s, {200});
  for (ProgramId p = 1; p <= 4; p++) {
    n.start(p, 0, 10);
    n.has(p, 40);
  }
  CHECK(told(n.say(1, in::CudaMalloc{1, 100})) == Told{"1 Suspend"});
  CHECK(told(n.say(2, in::CudaMalloc{1, 100})) == Told{"2 Suspend /spool"});
  n.leaves(1, 10);
  CHECK(n.policy.accounting().host_kept == 40);
  CHECK(n.policy.accounting().disk_kept == 40);
  n.leaves(2, 10);
  // There is no room for more contents: it waits on its GPU.
  CHECK(told(n.say(3, in::CudaMalloc{1, 105})) == Told{});
  CHECK(n.at(3).blocked());
  n.give(0, 50);
  CHECK(told(n.say(4, in::Fin{})) == Told{"3 GoAhead 1"});
}

TEST_CASE(
    "when all programs of a GPU hold memory and wait for more, the latest request is denied") {
  Settings s = small_settings();
  s.host_bytes = 0;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  n.has(1, 30);
  n.has(2, 30);
  CHECK(told(n.say(1, in::CudaMalloc{1, 30})) == Told{});
  CHECK(told(n.say(2, in::CudaMalloc{1, 30})) == Told{"2 OutOfMemory 1"});  // the later one
  n.give(0, 30);
  CHECK(told(n.say(2, in::CudaFree{0})) == Told{"1 GoAhead 1"});
}

TEST_CASE("a program that cannot be suspended is asked three times and waits on its GPU") {
  Node n(small_settings(), {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  n.has(1, 50);
  for (int i = 0; i < 3; i++) {
    CHECK(told(i == 0 ? n.say(2, in::CudaMalloc{1, 50}) : n.after(1s)) == Told{"2 Suspend"});
    CHECK(told(n.say(2, in::Failed{"managed memory"})) == Told{});
  }
  CHECK(told(n.after(10s)) == Told{});
  CHECK(n.at(2).blocked());
  n.give(0, 60);
  CHECK(told(n.say(1, in::Fin{})) == Told{"2 GoAhead 1"});
}

TEST_CASE("a failed resumption is tried again") {
  Node n(small_settings(), {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  n.has(1, 50);
  n.say(2, in::CudaMalloc{1, 50});
  n.leaves(2, 10);
  n.give(0, 60);
  CHECK(told(n.say(1, in::Fin{})) == Told{"2 Migrate GPU0"});
  CHECK(told(n.say(2, in::Failed{"its memory was taken"})) == Told{});
  CHECK(n.policy.accounting().gpus[0].reserved == 0);
  CHECK(told(n.after(499ms)) == Told{});
  CHECK(told(n.after(1ms)) == Told{"2 Migrate GPU0"});
}

TEST_CASE("the cheapest victim has lower priority, then fewer bytes, then the latest arrival") {
  Settings s = small_settings();
  s.victim = Victim::Cheapest;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  SUBCASE("bytes") {
    n.has(1, 50);
    n.has(2, 20);
    CHECK(told(n.say(1, in::CudaMalloc{1, 30})) == Told{"2 Signal"});
    CHECK(told(n.say(2, in::Query{})) == Told{"2 Suspend"});
    // The memory that it has left goes to the requester, not back to itself.
    CHECK(told(n.leaves(2, 10)) == Told{"1 GoAhead 1"});
  }
  SUBCASE("if no other frees enough, the requester itself") {
    n.start(3, 0, 10);
    n.has(1, 40);
    n.has(2, 5);
    n.has(3, 5);
    CHECK(told(n.say(1, in::CudaMalloc{1, 40})) == Told{"1 Suspend"});
  }
  SUBCASE("priority") {
    n.policy.gone(n.now, 2);
    n.give(0, 10);
    n.start(3, 0, 10, 5);
    n.has(1, 50);
    n.has(3, 20);
    CHECK(told(n.say(3, in::CudaMalloc{1, 30})) == Told{"1 Signal"});
  }
}

TEST_CASE("guests leave for every program that is not a guest, with each choice of the victim") {
  Settings s = small_settings();
  s.min_residency = 1s;
  SUBCASE("requester") { s.victim = Victim::Requester; }
  SUBCASE("cheapest") { s.victim = Victim::Cheapest; }
  Node n(s, {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10, -1);
  n.start(3, 0, 10, -1);
  n.has(2, 10);
  n.has(3, 20);
  CHECK(told(n.say(1, in::CudaMalloc{1, 50})) == Told{"2 Signal"});
  CHECK(told(n.say(2, in::Query{})) == Told{"2 Suspend"});
  CHECK(told(n.leaves(2, 10)) == Told{"1 GoAhead 1"});
}

TEST_CASE("as many guests leave as it takes") {
  Node n(small_settings(), {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10, -1);
  n.start(3, 0, 10, -1);
  n.has(2, 20);
  n.has(3, 30);
  CHECK(told(n.say(1, in::CudaMalloc{1, 70})) == Told{"3 Signal"});
  CHECK(told(n.after(0ms)) == Told{"2 Signal"});
  CHECK(told(n.say(3, in::Query{})) == Told{"3 Suspend"});
  CHECK(told(n.say(2, in::Query{})) == Told{"2 Suspend"});
  CHECK(told(n.leaves(3, 10)) == Told{});
  CHECK(told(n.leaves(2, 10)) == Told{"1 GoAhead 1"});
}

TEST_CASE("a guest makes no other program leave") {
  Node n(small_settings(), {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10, -1);
  n.start(3, 0, 10, -2);
  n.has(1, 20);
  n.has(3, 20);
  CHECK(told(n.say(2, in::CudaMalloc{1, 60})) == Told{"2 Suspend"});
}

TEST_CASE("a program that waits for a GPU gets that of guests, and a guest does not") {
  Node n(small_settings(), {100, 100});
  n.start(1, 0, 10, -1);
  n.start(2, 1, 10, -1);
  n.has(1, 85);
  n.has(2, 88);
  n.join(3, -1);
  CHECK(told(n.say(3, in::Connect{0})) == Told{});
  n.join(4);
  CHECK(told(n.say(4, in::Connect{0})) == Told{"1 Signal"});
  CHECK(told(n.say(1, in::Query{})) == Told{"1 Suspend"});
  CHECK(told(n.leaves(1, 10))[0] == "4 Connect GPU0");
}

TEST_CASE("a guest does not starve while there are others") {
  Node n(small_settings(), {100});
  n.start(1, 0, 10);
  n.has(1, 60);
  n.join(2, -1);
  n.say(2, in::Connect{0, true});
  n.after(1h);
  CHECK(n.policy.accounting().gpus[0].starving == nullptr);
  n.policy.gone(n.now, 1);
  n.after(1h);
}

TEST_CASE("a program is not evicted for another before its minimum residency") {
  Settings s = small_settings();
  s.min_residency = 1s;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.join(2);
  CHECK(told(n.say(2, in::Connect{0, true})) == Told{});
  CHECK(told(n.after(999ms)) == Told{});
  CHECK(told(n.after(1ms)) == Told{"1 Signal"});
}

TEST_CASE("time slices: programs that do not fit together take turns") {
  Settings s = small_settings();
  s.time_slice = 5s;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  n.has(1, 60);
  CHECK(told(n.say(2, in::CudaMalloc{1, 60})) == Told{"2 Suspend"});
  n.leaves(2, 10);
  CHECK(told(n.after(4s)) == Told{});
  CHECK(told(n.after(1s)) == Told{"1 Signal"});
  n.say(1, in::Query{});
  CHECK(told(n.leaves(1, 10)) == Told{"2 Migrate GPU0"});
  CHECK(told(n.comes(2, 0, 10)) == Told{"2 GoAhead 1"});
  n.take(0, 60);
  n.say(2, in::MallocDone{1, 60});
  CHECK(told(n.after(4s)) == Told{});
  CHECK(told(n.after(1s)) == Told{"2 Signal"});
}

TEST_CASE("an unresponsive victim does not hold up others, and may still answer") {
  Settings s = small_settings();
  Node n(s, {100, 100});
  n.start(1, 0, 10);
  n.start(2, 1, 10);
  n.has(2, 20);
  n.join(3);
  CHECK(told(n.say(3, in::Connect{0, true})) == Told{"1 Signal"});
  CHECK(told(n.after(59s)) == Told{});
  CHECK(told(n.after(1s)) == Told{"2 Signal"});
  CHECK(n.at(1).unresponsive());
  n.say(2, in::Query{});
  CHECK(told(n.leaves(2, 10)) == Told{"3 Connect GPU1", "2 Migrate GPU0"});
  SUBCASE("and no program needs it to leave any more") {
    CHECK(told(n.say(1, in::Query{})) == Told{"1 GoAhead 0"});
    CHECK(n.phase(1) == Phase::Assigned);
  }
  SUBCASE("and another program needs it to leave") {
    n.join(4);
    n.say(4, in::Connect{0, true});
    CHECK(told(n.say(1, in::Query{})) == Told{"1 Suspend"});
  }
}

TEST_CASE("a victim that answers too late does not leave for a program that is served after it") {
  Settings s = small_settings();
  s.victim = Victim::Cheapest;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.has(1, 20);
  n.now += 1s;
  n.start(2, 0, 10);
  n.has(2, 30);
  CHECK(told(n.say(2, in::CudaMalloc{1, 40})) == Told{"1 Signal"});
  CHECK(told(n.after(60s)) == Told{"2 Suspend"});
  n.give(0, 40);
  n.say(2, in::SuspendDone{30});
  SUBCASE("so it stays") {
    CHECK(told(n.say(1, in::Query{})) == Told{"1 GoAhead 0"});
    CHECK(n.phase(1) == Phase::Assigned);
  }
  SUBCASE("unless that program has a higher priority") {
    n.join(3, 1);
    n.say(3, in::Connect{80});
    CHECK(told(n.say(1, in::Query{})) == Told{"1 Suspend"});
  }
}

TEST_CASE("of three programs that take turns, each gets its turns") {
  Settings s = small_settings();
  s.time_slice = 5s;
  Node n(s, {100});
  n.learn(10);
  std::map<ProgramId, int> turns;
  ProgramId there = 1;
  n.start(1, 0, 10);
  n.has(1, 90);
  for (ProgramId p : {2, 3}) {
    n.join(p);
    CHECK(told(n.say(p, in::Connect{90})) == Told{});
  }
  for (int i = 0; i < 100; i++)
    for (const Order &o : n.after(1s)) {
      if (std::get_if<out::Signal>(&o.message) != nullptr) {
        CHECK(o.to == there);
        CHECK(told(n.say(there, in::Query{})) == Told{fmt::format("{} Suspend", there)});
        n.now += 10ms;
        n.free(0, 100);
        Orders next = n.say(there, in::SuspendDone{90});
        REQUIRE(next.size() == 1);
        there = next[0].to;
        turns[there]++;
        n.free(0, 0);
        if (n.phase(there) == Phase::Resuming) {
          n.say(there, in::MigDone{n.at(there).used});
        } else {
          n.policy.footprint(there, 100);
          n.say(there, in::ContextCheck{});
        }
      }
    }
  for (ProgramId p : {1, 2, 3}) CHECK(turns[p] >= 5);
}
