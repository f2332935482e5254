// SPDX-License-Identifier: Apache-2.0
//
// The behaviour that the Mobile CUDA paper describes, message by message. A context costs 10 bytes;
// docs/PAPERS.md explains the tags MC-n.
#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;

namespace {

Settings small() {
  Settings s;
  s.context_bytes = 10;
  s.min_residency = Time{0};
  return s;
}

}  // namespace

TEST_CASE("the reference sequence of the paper") {
  Node n(small(), {100, 200});
  n.start(1, 1, 10);  // the GPU with the most free memory
  n.start(2, 0, 10);
  n.has(1, 150);
  n.has(2, 50);  // mem1
  // mem2: too little is free, so the requester itself is evicted.
  CHECK(told(n.say(2, in::CudaMalloc{2, 60})) == Told{"2 Suspend"});
  CHECK(n.phase(2) == Phase::Evicting);
  CHECK(told(n.leaves(2, 10)) == Told{});  // no GPU has 10 + 50 + 60 bytes free
  CHECK(n.phase(2) == Phase::Evicted);
  // Another program ends, on another GPU.
  n.give(1, 160);
  CHECK(told(n.policy.gone(n.now, 1)) == Told{"2 Migrate GPU1"});
  CHECK(n.policy.accounting().gpus[1].reserved == 120);
  // After MIG_DONE, the waiting malloc is granted.
  CHECK(told(n.comes(2, 1, 10)) == Told{"2 GoAhead 2"});
  CHECK(n.policy.accounting().gpus[1].reserved == 60);
  n.take(1, 60);
  CHECK(told(n.say(2, in::MallocDone{2, 110})) == Told{});
  CHECK(n.policy.accounting().gpus[1].reserved == 0);
  CHECK(n.at(2).used == 110);
  n.say(2, in::Fin{});
  CHECK(n.policy.programs().empty());
}

TEST_CASE("reserved memory rises with a grant and falls with the measurement") {
  Node n(small(), {100});
  n.join(1);
  n.say(1, in::Connect{});
  CHECK(n.policy.accounting().gpus[0].reserved == 10);  // the context (MC-11)
  CHECK(told(n.say(1, in::ContextCheck{})) ==
        Told{"1 CCheckOk"});  // not measured: the report counts
  CHECK(n.policy.accounting().gpus[0].reserved == 0);
  n.take(0, 10);
  CHECK(told(n.say(1, in::CudaMalloc{1, 50})) == Told{"1 GoAhead 1"});
  // Another thread: 90 are measured free, 50 of them are reserved (MC-9).
  CHECK(told(n.say(1, in::CudaMalloc{2, 40})) == Told{"1 GoAhead 2"});
  CHECK(n.policy.accounting().gpus[0].reserved == 90);
  n.take(0, 50);
  n.say(1, in::MallocDone{1, 50});
  CHECK(n.policy.accounting().gpus[0].reserved == 40);
  n.give(0, 50);
  CHECK(told(n.say(1, in::CudaFree{0})) == Told{});
  CHECK(n.at(1).used == 0);
}

TEST_CASE("a context counts when it was measured, and its cost is learned") {
  Node n(small(), {1000});
  n.join(1);
  n.say(1, in::Connect{});
  n.policy.footprint(1, 0);
  CHECK(told(n.say(1, in::ContextCheck{})) == Told{"1 CCheckFailed"});
  CHECK(n.policy.accounting().gpus[0].reserved == 10);
  n.take(0, 300);
  n.policy.footprint(1, 300);
  CHECK(told(n.say(1, in::ContextCheck{})) == Told{"1 CCheckOk"});
  CHECK(n.policy.gpus()[0].context_bytes == 300);
  n.join(2);
  n.say(2, in::Connect{});
  CHECK(n.policy.accounting().gpus[0].reserved == 300);
}

TEST_CASE("a context that was not measured costs what it costs on another GPU") {
  Node n(small(), {1000, 1000});
  n.join(1);
  n.say(1, in::Connect{});
  n.take(0, 300);
  n.policy.footprint(1, 300);
  n.say(1, in::ContextCheck{});
  n.join(2);
  CHECK(told(n.say(2, in::Connect{})) == Told{"2 Connect GPU1"});
  CHECK(n.policy.accounting().gpus[1].reserved == 300);
  CHECK_FALSE(n.policy.gpus()[1].context_known);
}

TEST_CASE("a driver that never shows a context is believed after 20 checks") {
  Node n(small(), {1000});
  n.join(1);
  n.say(1, in::Connect{});
  Told answer;
  for (int i = 0; i < 20; i++) {
    n.policy.footprint(1, 0);
    answer = told(n.say(1, in::ContextCheck{}));
  }
  CHECK(answer == Told{"1 CCheckOk"});
  CHECK(n.policy.gpus()[0].context_bytes == 0);
}

TEST_CASE("device variables: the assignment changes with each that is found (MC-14)") {
  Node n(small(), {100, 90});
  n.learn(10);
  n.join(1);
  CHECK(told(n.say(1, in::Connect{0})) == Told{"1 Connect GPU0"});
  CHECK(told(n.say(1, in::Connect{40})) == Told{"1 Connect GPU0"});  // dmem1
  n.free(0, 60, true);
  CHECK(told(n.say(1, in::Connect{75})) == Told{"1 Connect GPU1"});  // dmem2
  CHECK(n.policy.accounting().gpus[0].reserved == 0);
  CHECK(n.policy.accounting().gpus[1].reserved == 85);
  SUBCASE("what fits on no GPU now waits") {
    CHECK(told(n.say(1, in::Connect{85})) == Told{});
    CHECK(n.phase(1) == Phase::Pending);
    n.free(0, 100);
    CHECK(told(n.after(Time{1})) == Told{"1 Connect GPU0"});
  }
  SUBCASE("what never fits is denied") {
    CHECK(told(n.say(1, in::Connect{95})) == Told{"1 OutOfMemory 0"});
  }
  SUBCASE("variables stay reserved until they were measured") {
    n.take(1, 10);
    n.policy.footprint(1, 10);
    CHECK(told(n.say(1, in::ContextCheck{})) == Told{"1 CCheckFailed"});
    CHECK(n.policy.accounting().gpus[1].reserved == 75);
    SUBCASE("without an allocation") {
      n.take(1, 75);
      n.policy.footprint(1, 85);
      CHECK(told(n.say(1, in::ContextCheck{})) == Told{"1 CCheckOk"});
      CHECK(n.policy.accounting().gpus[1].reserved == 0);
      return;
    }
    SUBCASE("variables that never appear stay reserved") {
      for (int i = 0; i < 18; i++) {
        n.policy.footprint(1, 10);
        CHECK(told(n.say(1, in::ContextCheck{})) == Told{"1 CCheckFailed"});
      }
      n.policy.footprint(1, 10);
      CHECK(told(n.say(1, in::ContextCheck{})) == Told{"1 CCheckOk"});
      CHECK(n.policy.accounting().gpus[1].reserved == 75);
      return;
    }
    n.say(1, in::CudaMalloc{1, 3});
    n.take(1, 78);
    n.policy.footprint(1, 88);
    n.say(1, in::MallocDone{1, 3});
    CHECK(n.policy.accounting().gpus[1].reserved == 0);
  }
}

TEST_CASE(
    "device variables that were not created before an eviction are reserved at the resumption") {
  Node n(small(), {200});
  n.learn(10);
  n.start(2, 0, 10);
  n.has(2, 100);
  n.join(1);
  CHECK(told(n.say(1, in::Connect{50})) == Told{"1 Connect GPU0"});
  n.take(0, 10);
  n.policy.footprint(1, 10);
  CHECK(told(n.say(1, in::ContextCheck{})) == Told{"1 CCheckFailed"});
  CHECK(told(n.say(1, in::CudaMalloc{1, 60})) == Told{"1 Suspend"});
  n.give(0, 10);
  CHECK(told(n.say(1, in::SuspendDone{0})) == Told{});
  CHECK(told(n.say(1, in::ContextCheck{})) == Told{"1 CCheckOk"});
  n.give(0, 100);
  CHECK(told(n.say(2, in::CudaFree{0})) == Told{"1 Migrate GPU0"});
  n.take(0, 10);
  CHECK(told(n.say(1, in::MigDone{0})) == Told{"1 GoAhead 1", "1 CCheckFailed"});
  n.take(0, 60);
  n.say(1, in::MallocDone{1, 60});
  CHECK(n.policy.accounting().gpus[0].reserved == 50);
  SUBCASE("so no other program gets their memory") {
    CHECK(told(n.say(2, in::CudaMalloc{2, 80})) == Told{"2 Suspend"});
  }
  SUBCASE("until they are measured") {
    n.take(0, 50);
    n.policy.footprint(1, 120);
    CHECK(told(n.say(1, in::ContextCheck{})) == Told{"1 CCheckOk"});
    CHECK(n.policy.accounting().gpus[0].reserved == 0);
  }
}

TEST_CASE("at most four programs per GPU hold an assignment (MC-18)") {
  Settings s = small();
  s.contextless_per_gpu = 100;
  Node n(s, {1000, 1000});
  for (ProgramId p = 1; p <= 9; p++) {
    n.join(p);
    n.say(p, in::Connect{});
  }
  for (ProgramId p = 1; p <= 8; p++) CHECK(n.phase(p) == Phase::Assigned);
  CHECK(n.phase(9) == Phase::Pending);
  CHECK(told(n.say(3, in::Fin{})).size() == 1);
  CHECK(n.phase(9) == Phase::Assigned);
}

TEST_CASE("at most four without a context per GPU (MC-19)") {
  Settings s = small();
  s.programs_per_gpu = 100;
  Node n(s, {1000});
  for (ProgramId p = 1; p <= 5; p++) {
    n.join(p);
    n.say(p, in::Connect{});
  }
  CHECK(n.phase(4) == Phase::Assigned);
  CHECK(n.phase(5) == Phase::Pending);
  // One of them makes its context.
  CHECK(told(n.say(2, in::ContextCheck{})) == Told{"2 CCheckOk", "5 Connect GPU0"});
}

TEST_CASE("evicted programs count against the node's limit, and not against their GPU's") {
  Settings s = small();
  s.programs_per_gpu = 2;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  n.has(1, 60);
  n.say(2, in::CudaMalloc{1, 50});
  n.leaves(2, 10);
  n.join(3);
  CHECK(told(n.say(3, in::Connect{})) == Told{});
  n.give(0, 70);
  CHECK(told(n.say(1, in::Fin{})) == Told{"2 Migrate GPU0", "3 Connect GPU0"});
}

TEST_CASE("a program with kernels that call malloc gets a GPU alone (MC-15, MC-16)") {
  Node n(small(), {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  n.has(2, 20);
  n.join(3);
  // The others are signalled; each asks why, and is told to suspend.
  CHECK(told(n.say(3, in::Connect{0, true})) == Told{"1 Signal", "2 Signal"});
  n.join(4);
  CHECK(told(n.say(4, in::Connect{})) == Told{});  // no new program is admitted
  CHECK(told(n.say(1, in::Query{})) == Told{"1 Suspend"});
  CHECK(told(n.say(2, in::Query{})) == Told{"2 Suspend"});
  CHECK(told(n.leaves(2, 10)) == Told{});
  CHECK(told(n.leaves(1, 10)) == Told{"3 Connect GPU0"});
  n.take(0, 10);
  n.say(3, in::ContextCheck{});
  SUBCASE("when it ends, the others resume in order of arrival") {
    n.give(0, 10);
    CHECK(told(n.say(3, in::Fin{})) == Told{"1 Migrate GPU0", "2 Migrate GPU0", "4 Connect GPU0"});
  }
  SUBCASE("a second one waits before it has a context (MC-17)") {
    n.join(5);
    CHECK(told(n.say(5, in::Connect{0, true})) == Told{});
    CHECK(n.phase(5) == Phase::Pending);
  }
  SUBCASE("it is never evicted: a request that does not fit is denied") {
    CHECK(told(n.say(3, in::CudaMalloc{1, 95})) == Told{"3 OutOfMemory 1"});
    CHECK(told(n.say(3, in::CudaMalloc{2, 90})) == Told{"3 GoAhead 2"});
  }
}

TEST_CASE("an exclusive program waits until the memory of ended programs is free") {
  Node n(small(), {100});
  n.start(1, 0, 10);
  n.join(2);
  n.say(2, in::Connect{0, true});
  n.policy.measured(0, 90, false, true);
  CHECK(told(n.policy.gone(n.now, 1)) == Told{});
  n.policy.measured(0, 100, false, false);
  CHECK(told(n.after(Time{1})) == Told{"2 Connect GPU0"});
}

TEST_CASE("two exclusive programs get two GPUs, and a third waits") {
  Node n(small(), {100, 100});
  n.start(1, 0, 10);
  for (ProgramId p : {2, 3, 4}) n.join(p);
  CHECK(told(n.say(2, in::Connect{0, true})) == Told{"2 Connect GPU1"});
  CHECK(told(n.say(3, in::Connect{0, true})) == Told{"1 Signal"});
  CHECK(told(n.say(4, in::Connect{0, true})) == Told{});
  n.say(1, in::Query{});
  CHECK(told(n.leaves(1, 10)) == Told{"3 Connect GPU0"});
  CHECK(told(n.say(2, in::Fin{})) == Told{"1 Migrate GPU1"});  // the first to arrive
  CHECK(told(n.comes(1, 1, 10)) == Told{"1 Signal"});          // which leaves for the last program
}

TEST_CASE("a signal is cancelled when its reason has gone") {
  Node n(small(), {100});
  n.start(1, 0, 10);
  n.join(2);
  CHECK(told(n.say(2, in::Connect{0, true})) == Told{"1 Signal"});
  n.policy.gone(n.now, 2);
  CHECK(told(n.say(1, in::Query{})) == Told{"1 GoAhead 0"});
  CHECK(n.phase(1) == Phase::Assigned);
}

TEST_CASE("a request larger than any GPU is denied at once") {
  Node n(small(), {100, 200});
  n.learn(10);
  n.start(1, 1, 10);
  n.has(1, 100);
  CHECK(told(n.say(1, in::CudaMalloc{1, 91})) == Told{"1 OutOfMemory 1"});
  CHECK(n.phase(1) == Phase::Assigned);
  CHECK(told(n.say(1, in::CudaMalloc{2, 90})) == Told{"1 GoAhead 2"});
}
