// SPDX-License-Identifier: Apache-2.0
//
// Code that is loaded after the start: its device variables are requested like any other memory,
// and if its kernels use the device heap, the program needs a GPU for itself from then on.
#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;

namespace {

Settings quick() {
  Settings s;
  s.min_residency = Time{0};
  s.context_bytes = 10;
  return s;
}

in::Load heap_code(u32 ticket, u64 bytes = 0) { return {ticket, bytes, true}; }

// Two programs with a context of 10 bytes on one GPU of 100.
struct Pair : Node {
  explicit Pair(const std::vector<u64> &gpus = {100}) : Node(quick(), gpus) {
    start(1, 0, 10);
    if (gpus.size() == 1) start(2, 0, 10);
  }
  // Program 1 loads heap code, and program 2 is asked to leave.
  void asks_to_be_alone() {
    CHECK(told(say(1, heap_code(5))) == Told{"2 Signal"});
    CHECK(told(say(2, in::Query{})) == Told{"2 Suspend"});
  }
  // Program 2 has left, and returns when program 1 has ended.
  void loads_and_ends() {
    CHECK(told(leaves(2, 10)) == Told{"1 GoAhead 5"});
    say(1, in::LoadDone{5, 0, 0, true});
    CHECK(told(after(std::chrono::seconds(60))).empty());
    give(0, 10);
    CHECK(told(say(1, in::Fin{})) == Told{"2 Migrate GPU0"});
  }
};

}  // namespace

TEST_CASE("a program that is alone on its GPU loads heap code at once") {
  Node n(quick(), {100});
  n.start(1, 0, 10);
  CHECK(told(n.say(1, heap_code(5))) == Told{"1 GoAhead 5"});
  CHECK(n.policy.accounting().gpus[0].exclusive == &n.at(1));
  n.say(1, in::LoadDone{5, 0, 0, true});
  CHECK(n.at(1).exclusive);
  // No other program is admitted, and it does not leave.
  n.join(2);
  CHECK(told(n.say(2, in::Connect{})).empty());
  CHECK(told(n.after(std::chrono::seconds(60))).empty());
}

TEST_CASE("the other programs leave before heap code is loaded") {
  Pair n;
  n.has(2, 30);
  n.asks_to_be_alone();
  n.loads_and_ends();
}

TEST_CASE("a program that loads heap code moves to an empty GPU") {
  Pair n({100, 100});
  n.start(2, 1, 10);
  n.start(3, 0, 10);
  n.give(1, 10);
  n.say(2, in::Fin{});
  CHECK(told(n.say(3, heap_code(5))) == Told{"3 Suspend"});
  CHECK(n.policy.accounting().gpus[1].exclusive == &n.at(3));
  CHECK(told(n.leaves(3, 10)) == Told{"3 Migrate GPU1"});
  CHECK(told(n.comes(3, 1, 10)) == Told{"3 GoAhead 5"});
  CHECK(n.phase(1) == Phase::Assigned);
}

TEST_CASE("of two programs that load heap code on one GPU, one leaves until the other has ended") {
  Pair n;
  CHECK(told(n.say(1, heap_code(5))) == Told{"2 Signal"});
  // Before program 2 has received its signal.
  CHECK(told(n.say(2, heap_code(6))).empty());
  CHECK(told(n.say(2, in::Query{})) == Told{"2 Suspend"});
  n.loads_and_ends();
  CHECK(told(n.comes(2, 0, 10)) == Told{"2 GoAhead 6"});
  CHECK(n.at(2).alone());
}

TEST_CASE("a program leaves if another of its GPU cannot") {
  Pair n;
  n.asks_to_be_alone();
  CHECK(told(n.say(2, in::Failed{"it cannot"})) == Told{"1 Suspend"});
  CHECK(told(n.leaves(1, 10)).empty());
  n.give(0, 10);
  CHECK(told(n.say(2, in::Fin{})) == Told{"1 Migrate GPU0"});
}

TEST_CASE("two loads of programs that cannot leave do not wait for each other") {
  Settings s = quick();
  s.host_bytes = 0;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  n.has(1, 10);
  n.has(2, 10);
  CHECK(told(n.say(1, heap_code(5))).empty());
  // Both would wait forever: the later one is denied.
  CHECK(told(n.say(2, heap_code(6))) == Told{"2 OutOfMemory 6"});
  n.give(0, 20);
  CHECK(told(n.say(2, in::Fin{})) == Told{"1 GoAhead 5"});
}

TEST_CASE("a waiting exclusive program does not block one that cannot leave") {
  Settings s = quick();
  s.host_bytes = 0;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.has(1, 10);
  n.join(2);
  CHECK(told(n.say(2, in::Connect{0, true})).empty());
  CHECK(told(n.say(1, heap_code(5))) == Told{"1 GoAhead 5"});
}

TEST_CASE("variables of late code are requested like any other memory") {
  Pair n;
  n.has(2, 50);
  // 30 are free.
  CHECK(told(n.say(1, in::Load{5, 31, false})) == Told{"1 Suspend"});
  CHECK(told(n.leaves(1, 10)) == Told{});
  n.give(0, 60);
  CHECK(told(n.say(2, in::Fin{})) == Told{"1 Migrate GPU0"});
  CHECK(told(n.comes(1, 0, 10)) == Told{"1 GoAhead 5"});
  // They stay reserved until they were measured.
  n.policy.footprint(1, 10);
  n.say(1, in::LoadDone{5, 0, 31, false});
  CHECK(n.policy.accounting().gpus[0].reserved == 31);
  n.take(0, 31);
  CHECK(told(n.say(1, in::CudaMalloc{6, 1})) == Told{"1 GoAhead 6"});
  n.policy.footprint(1, 41 + 1);
  n.say(1, in::MallocDone{6, 1});
  CHECK(n.policy.accounting().gpus[0].reserved == 0);
  // Unloaded.
  n.say(1, in::LoadDone{0, 1, 0, false});
  CHECK(n.at(1).variables == 0);
  CHECK_FALSE(n.at(1).exclusive);
}

TEST_CASE("code with more variables than any GPU has memory is denied at once") {
  Pair n;
  CHECK(told(n.say(1, in::Load{5, 95, false})) == Told{"1 OutOfMemory 5"});
  CHECK(told(n.say(1, heap_code(6, 95))) == Told{"1 OutOfMemory 6"});
  CHECK_FALSE(n.at(1).wants_alone());
}
