// SPDX-License-Identifier: Apache-2.0
//
// What the Manager does beyond the paper: ageing, budgets, victims, slices, failures, restarts.
#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;
using namespace std::chrono_literals;

namespace {

Settings small() {
  Settings s;
  s.context_bytes = 10;
  s.min_residency = Time{0};
  s.programs_per_gpu = 10;
  return s;
}

}  // namespace

TEST_CASE("a large program does not starve behind small ones") {
  Node n(small(), {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  n.has(1, 40);
  n.has(2, 20);
  CHECK(told(n.say(2, in::CudaMalloc{1, 60})) == Told{"2 Suspend"});
  n.leaves(2, 10);  // it needs 90
  // Small ones come and go, first fit.
  n.now += 10s;
  n.start(3, 0, 10);
  n.now += 25s;
  // Now it is the starving: what comes free is kept for it, and nobody new comes in.
  n.join(4);
  CHECK(told(n.say(4, in::Connect{})) == Told{});
  // Nor do those that are there grow: who asks for more makes room.
  CHECK(told(n.say(3, in::CudaMalloc{1, 20})) == Told{"3 Suspend"});
  CHECK(told(n.leaves(3, 10)) == Told{});
  n.give(0, 50);
  CHECK(told(n.say(1, in::Fin{})) == Told{"2 Migrate GPU0", "4 Connect GPU0"});
}

TEST_CASE("without ageing the small ones would go on coming in") {
  Settings s = small();
  s.starvation_limit = 1h;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  n.has(1, 40);
  n.has(2, 20);
  n.say(2, in::CudaMalloc{1, 60});
  n.leaves(2, 10);
  n.now += 35s;
  n.join(4);
  CHECK(told(n.say(4, in::Connect{})) == Told{"4 Connect GPU0"});
}

TEST_CASE("contents go to host memory, then to the disk, then nowhere") {
  Settings s = small();
  s.host_bytes = 50;
  s.disk_folder = "/spool";
  s.disk_bytes = 45;
  Node n(s, {200});
  for (ProgramId p = 1; p <= 4; p++) n.start(p, 0, 10), n.has(p, 40);
  CHECK(told(n.say(1, in::CudaMalloc{1, 100})) == Told{"1 Suspend"});
  CHECK(told(n.say(2, in::CudaMalloc{1, 100})) == Told{"2 Suspend /spool"});
  n.leaves(1, 10);
  CHECK(n.policy.accounting().host_kept == 40);
  CHECK(n.policy.accounting().disk_kept == 40);
  n.leaves(2, 10);
  // Nowhere is room for more: it waits where it is.
  CHECK(told(n.say(3, in::CudaMalloc{1, 105})) == Told{});
  CHECK(n.at(3).blocked());
  n.give(0, 50);
  CHECK(told(n.say(4, in::Fin{})) == Told{"3 GoAhead 1"});
}

TEST_CASE("who waits with its memory in its hands is denied when nobody could ever go on") {
  Settings s = small();
  s.host_bytes = 0;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  n.has(1, 30);
  n.has(2, 30);
  CHECK(told(n.say(1, in::CudaMalloc{1, 30})) == Told{});
  CHECK(told(n.say(2, in::CudaMalloc{1, 30})) == Told{"2 OutOfMemory 1"});  // the younger
  n.give(0, 30);
  CHECK(told(n.say(2, in::CudaFree{0})) == Told{"1 GoAhead 1"});
}

TEST_CASE("a program that cannot be suspended waits where it is, and is asked three times") {
  Node n(small(), {100});
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

TEST_CASE("a return that failed is tried again") {
  Node n(small(), {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  n.has(1, 50);
  n.say(2, in::CudaMalloc{1, 50});
  n.leaves(2, 10);
  n.give(0, 60);
  CHECK(told(n.say(1, in::Fin{})) == Told{"2 Migrate GPU0"});
  CHECK(told(n.say(2, in::Failed{"somebody took it"})) == Told{});
  CHECK(n.policy.accounting().gpus[0].reserved == 0);
  CHECK(told(n.after(499ms)) == Told{});
  CHECK(told(n.after(1ms)) == Told{"2 Migrate GPU0"});
}

TEST_CASE("the cheapest victim: lower priority, then fewer bytes, then the last one") {
  Settings s = small();
  s.victim = Victim::Cheapest;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  SUBCASE("bytes") {
    n.has(1, 50);
    n.has(2, 20);
    CHECK(told(n.say(1, in::CudaMalloc{1, 30})) == Told{"2 Signal"});
    CHECK(told(n.say(2, in::Query{})) == Told{"2 Suspend"});
    // What it has left is the requester's, not its own again.
    CHECK(told(n.leaves(2, 10)) == Told{"1 GoAhead 1"});
  }
  SUBCASE("too little to help: the requester itself") {
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

TEST_CASE("nobody is evicted for another before it has run for a while") {
  Settings s = small();
  s.min_residency = 1s;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.join(2);
  CHECK(told(n.say(2, in::Connect{0, true})) == Told{});
  CHECK(told(n.after(999ms)) == Told{});
  CHECK(told(n.after(1ms)) == Told{"1 Signal"});
}

TEST_CASE("time slices: programs that do not fit together take turns") {
  Settings s = small();
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

TEST_CASE("priorities: who matters more is served first") {
  Node n(small(), {100});
  n.start(1, 0, 10);
  n.has(1, 85);
  n.join(2), n.join(3, 7);
  n.say(2, in::Connect{50});
  n.say(3, in::Connect{50});
  n.give(0, 95);
  CHECK(told(n.say(1, in::Fin{})) == Told{"3 Connect GPU0"});
}

TEST_CASE("a limit of memory for each program") {
  Settings s = small();
  s.program_bytes = 40;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.has(1, 30);
  CHECK(told(n.say(1, in::CudaMalloc{1, 11})) == Told{"1 OutOfMemory 1"});
  CHECK(told(n.say(1, in::CudaMalloc{2, 10})) == Told{"1 GoAhead 2"});
}

TEST_CASE("a victim that does not answer: others look elsewhere, and it may still answer") {
  Settings s = small();
  Node n(s, {100, 100});
  n.start(1, 0, 10);
  n.start(2, 1, 10);
  n.has(2, 20);
  n.join(3);
  CHECK(told(n.say(3, in::Connect{0, true})) == Told{"1 Signal"});
  CHECK(told(n.after(59s)) == Told{});
  CHECK(told(n.after(1s)) == Told{"2 Signal"});
  CHECK(n.at(1).stuck);
  n.say(2, in::Query{});
  CHECK(told(n.leaves(2, 10)) == Told{"3 Connect GPU1", "2 Migrate GPU0"});
  SUBCASE("in time after all: nobody needs it to leave any more") {
    CHECK(told(n.say(1, in::Query{})) == Told{"1 GoAhead 0"});
    CHECK(n.phase(1) == Phase::Assigned);
  }
  SUBCASE("and somebody does") {
    n.join(4);
    n.say(4, in::Connect{0, true});
    CHECK(told(n.say(1, in::Query{})) == Told{"1 Suspend"});
  }
}

TEST_CASE("a victim that answers too late does not leave for one whose turn comes after it") {
  Settings s = small();
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
  SUBCASE("but stays") {
    CHECK(told(n.say(1, in::Query{})) == Told{"1 GoAhead 0"});
    CHECK(n.phase(1) == Phase::Assigned);
  }
  SUBCASE("unless that one is more important") {
    n.join(3, 1);
    n.say(3, in::Connect{80});
    CHECK(told(n.say(1, in::Query{})) == Told{"1 Suspend"});
  }
}

TEST_CASE("another Manager hears from the programs how things are") {
  Node n(small(), {100});
  n.free(0, 20);
  n.say(7, in::Join{.version = 1,
                    .pid = 7,
                    .name = "b",
                    .standing = managed::Standing::Evicted,
                    .used = 30,
                    .kept = 30,
                    .age_ms = 5000});
  n.say(8, in::Join{.version = 1,
                    .pid = 8,
                    .name = "a",
                    .standing = managed::Standing::Running,
                    .gpu = "GPU0",
                    .used = 70,
                    .age_ms = 9000});
  n.say(9, in::Join{.version = 1,
                    .pid = 9,
                    .name = "c",
                    .standing = managed::Standing::Suspended,
                    .used = 5,
                    .kept = 5});
  CHECK(n.policy.programs()[0]->id == 8);  // by age, not by who reconnects first
  CHECK(n.policy.accounting().host_kept == 35);
  // Requests are told again.
  CHECK(told(n.say(7, in::CudaMalloc{3, 10})) == Told{});
  n.give(0, 80);
  CHECK(told(n.say(8, in::Fin{})) == Told{"7 Migrate GPU0"});
  CHECK(told(n.comes(7, 0, 10)) == Told{"7 GoAhead 3"});
  CHECK(n.phase(9) == Phase::Evicted);  // by somebody else, and not ours to resume
}

TEST_CASE("what is not free on an empty GPU will not come free") {
  Node n(small(), {100});
  n.free(0, 80, true);
  n.join(1);
  CHECK(told(n.say(1, in::Connect{85})) == Told{});  // somebody else is there, and may leave
  n.free(0, 80, false);
  CHECK(told(n.after(1s)) == Told{"1 OutOfMemory 0"});  // the driver has the rest
}

TEST_CASE("messages of strangers and messages out of turn do nothing") {
  Node n(small(), {100});
  CHECK(told(n.say(5, in::CudaMalloc{1, 10})) == Told{});
  n.join(1);
  for (const managed::ToManager &m :
       {managed::ToManager(in::MigDone{5}), managed::ToManager(in::SuspendDone{5}),
        managed::ToManager(in::Failed{"no"}), managed::ToManager(in::MallocDone{1, 5})})
    CHECK(told(n.say(1, m)) == Told{});
  CHECK(told(n.say(1, in::Query{})) == Told{"1 GoAhead 0"});
}

TEST_CASE("who shares a GPU moves to one that nobody uses any more") {
  Settings s = small();
  s.rebalance_after = 10s;
  Node n(s, {100, 100});
  n.start(1, 0, 10);
  n.start(2, 1, 10);
  n.start(3, 0, 10);
  n.has(1, 30);
  n.has(3, 20);
  n.give(1, 10);
  CHECK(told(n.say(2, in::Fin{})) == Told{});
  CHECK(n.policy.waits());  // for time to pass
  CHECK(told(n.after(9s)) == Told{});
  CHECK(told(n.after(2s)) == Told{"3 Signal"});  // it has less to move
  CHECK(told(n.say(3, in::Query{})) == Told{"3 Suspend"});
  CHECK(told(n.leaves(3, 10)) == Told{"3 Migrate GPU1"});
  CHECK(told(n.comes(3, 1, 10)) == Told{});
  CHECK_FALSE(n.policy.waits());
  CHECK(told(n.after(1h)) == Told{});
}

TEST_CASE("nobody moves whose move takes long, or while somebody waits") {
  Settings s = small();
  s.rebalance_after = 10s;
  constexpr u64 kGb = 1'000'000'000;
  Node n(s, {100 * kGb, 100 * kGb, 10 * kGb});
  n.start(1, 0, 10);
  n.start(2, 1, 10);
  n.start(3, 2, 10);
  n.start(4, 0, 10);
  n.has(1, 30 * kGb);
  n.has(4, 20 * kGb);
  n.give(2, 10);
  n.say(3, in::Fin{});
  CHECK(told(n.after(1h)) == Told{});  // it is too small
  n.give(1, 10);
  n.say(2, in::Fin{});
  Node m(s, {100 * kGb, 100 * kGb});
  m.start(1, 0, 10);
  m.start(2, 1, 10);
  m.start(3, 0, 10);
  m.has(1, 30 * kGb);
  m.has(3, 20 * kGb);
  m.give(1, 10);
  m.say(2, in::Fin{});
  CHECK(told(m.after(205s)) == Told{});
  CHECK(told(m.after(6s)) == Told{"3 Signal"});  // ten seconds, and 200
}

TEST_CASE("who is on no GPU of this node is left where it is, whatever it says") {
  Settings s = small();
  s.rebalance_after = 10s;
  Node n(s, {100, 100});
  n.learn(10);
  n.start(1, 0, 10);
  n.say(2, in::Join{.version = managed::kVersion, .standing = managed::Standing::Running});
  CHECK(told(n.after(1h)) == Told{});
  SUBCASE("a GPU that does not exist did not suit it") {
    n.say(3, in::Uses{static_cast<u32>(managed::Api::kOpenCl)});
    in::Join evicted{.version = managed::kVersion, .standing = managed::Standing::Evicted};
    CHECK(told(n.say(3, evicted)) == Told{"3 Migrate "});
    CHECK(told(n.say(3, in::Unsuited{"x", "why"})) == Told{});
    CHECK(n.at(3).unsuited.empty());
  }
  SUBCASE("what it has asked for is granted") {
    n.join(3);
    n.say(3, in::Failed{"nothing"});
    n.free(0, 0), n.free(1, 0);
    CHECK(told(n.say(3, in::Connect{})) == Told{});
    CHECK(told(n.say(3, in::CudaMalloc{1, 50})) == Told{});
    CHECK(told(n.say(3, in::Uses{static_cast<u32>(managed::Api::kOpenCl)})) == Told{"3 Migrate "});
    CHECK(told(n.say(3, in::MigDone{0})) == Told{"3 GoAhead 1"});
    CHECK_FALSE(n.at(3).blocked());
  }
}

TEST_CASE("where a program has failed to return it goes last, and is not moved to") {
  Settings s = small();
  s.rebalance_after = 10s;
  Node n(s, {100, 100});
  n.start(1, 0, 10);
  n.start(2, 1, 10);
  n.start(3, 0, 10);
  n.give(1, 10);
  n.say(2, in::Fin{});
  CHECK(told(n.after(11s)) == Told{"1 Signal"});
  CHECK(told(n.say(1, in::Query{})) == Told{"1 Suspend"});
  CHECK(told(n.leaves(1, 10)) == Told{"1 Migrate GPU1"});
  CHECK(told(n.say(1, in::Failed{"another chip"})) == Told{});
  CHECK(told(n.after(1s)) == Told{"1 Migrate GPU0", "3 Signal"});  // who may be luckier
  CHECK(told(n.comes(1, 0, 10)) == Told{});
  CHECK(told(n.say(3, in::Failed{"not now"})) == Told{});
  CHECK(told(n.after(11s)) == Told{"3 Signal"});
}

TEST_CASE("a program that asked twice for its place is moved like any other") {
  Settings s = small();
  s.rebalance_after = 10s;
  Node n(s, {100, 100});
  n.learn(10);
  n.start(1, 0, 10);
  n.start(2, 1, 10);
  n.join(3);
  CHECK(told(n.say(3, in::Connect{})) == Told{"3 Connect GPU0"});
  CHECK(told(n.say(3, in::Connect{20})) == Told{"3 Connect GPU0"});  // it stays where it was
  n.take(0, 30);
  n.policy.footprint(3, 30);
  CHECK(told(n.say(3, in::ContextCheck{})) == Told{"3 CCheckOk"});
  n.has(1, 30);
  n.give(1, 10);
  n.say(2, in::Fin{});
  CHECK(told(n.after(11s)) == Told{"3 Signal"});
  CHECK(told(n.say(3, in::Query{})) == Told{"3 Suspend"});
  n.give(0, 30);
  CHECK(told(n.say(3, in::SuspendDone{20})) == Told{"3 Migrate GPU1"});
}

TEST_CASE("of those who have waited too long, who came first is the starving, evicted or not") {
  Settings s;
  s.context_bytes = 10;
  s.programs_per_gpu = 2;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.has(1, 40);
  n.start(2, 0, 10);
  n.has(2, 30);
  n.join(3);
  CHECK(told(n.say(3, in::Connect{})) == Told{});
  n.after(20s);
  CHECK(told(n.say(1, in::CudaMalloc{1, 45})) == Told{"1 Suspend"});
  CHECK(told(n.leaves(1, 10)) == Told{});
  n.after(40s);
  n.give(0, 40);
  CHECK(told(n.say(2, in::Fin{})) == Told{"1 Migrate GPU0"});
}

TEST_CASE("an assignment is kept for an starving, too") {
  Settings s;
  s.context_bytes = 10;
  s.programs_per_gpu = 1;
  Node n(s, {100, 100});
  n.start(1, 0, 10);
  n.start(2, 1, 10);
  n.has(2, 30);
  n.join(3);
  CHECK(told(n.say(3, in::Connect{60})) == Told{});
  n.join(4);
  CHECK(told(n.say(4, in::Connect{})) == Told{});
  n.after(60s);
  // Where there is room for 4 but not for 3, for which the other GPU is cleared.
  n.free(0, 50, true);
  CHECK(told(n.say(1, in::Fin{})) == Told{});
  n.give(1, 40);
  CHECK(told(n.say(2, in::Fin{})) == Told{"3 Connect GPU1", "4 Connect GPU0"});
}

TEST_CASE("three that take turns all have theirs") {
  Settings s = small();
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
        if (n.phase(there) == Phase::Resuming)
          n.say(there, in::MigDone{n.at(there).used});
        else
          n.policy.footprint(there, 100), n.say(there, in::ContextCheck{});
      }
    }
  for (ProgramId p : {1, 2, 3}) CHECK(turns[p] >= 5);
}
