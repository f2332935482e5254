// SPDX-License-Identifier: Apache-2.0
//
// Programs that leave their GPU without their context, and give it back when the room is needed.
#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;
using namespace std::chrono_literals;

namespace {

constexpr u64 kStays = 10;

// A program that knows depths, with a context and `bytes` bytes on GPU0.
void start_with(Node &n, ProgramId p, u64 bytes) {
  n.start(p, 0, kStays);
  n.say(p, in::Uses{managed::kCuda | managed::kKnowsDepths});
  n.has(p, bytes);
}

// Its memory is free then, its context is not.
Orders leaves_memory(Node &n, ProgramId p) {
  n.give(0, n.at(p).used);
  n.policy.footprint(p, kStays);
  return n.say(p, in::Evicted{n.at(p).used, "GPU0"});
}

Orders gives_the_rest_back(Node &n, ProgramId p) {
  n.give(0, kStays);
  return n.say(p, in::Evicted{n.at(p).used, ""});
}

// On a GPU of 100 bytes, program 1 has left 40 bytes and its context of 10; program 2 has 20.
void leave_one(Node &n) {
  start_with(n, 1, 40);
  start_with(n, 2, 20);
  REQUIRE(told(n.say(1, in::CudaMalloc{7, 30})) == Told{"1 SuspendMemory"});
  REQUIRE(told(leaves_memory(n, 1)) == Told{});
}

}  // namespace

TEST_CASE("a program that knows no depths is told to leave as always") {
  Node n(small_settings(), {100});
  n.start(1, 0, kStays);
  n.has(1, 40);
  n.start(2, 0, kStays);
  CHECK(told(n.say(1, in::CudaMalloc{7, 45})) == Told{"1 Suspend"});
}

TEST_CASE("a context that stays is booked, and not reserved again at the resume") {
  Node n(small_settings(), {100});
  leave_one(n);
  CHECK(n.phase(1) == Phase::Evicted);
  CHECK(n.policy.accounting().gpus[0].staying == kStays);
  CHECK(n.policy.accounting().gpus[0].available() == 60);
  // It needs 40 + 30, and not 10 for a context.
  n.give(0, 10);
  CHECK(told(n.say(2, in::CudaFree{10})) == Told{"1 Migrate GPU0"});
  CHECK(n.policy.accounting().gpus[0].reserved == 70);
  CHECK(n.policy.accounting().gpus[0].staying == 0);
  n.take(0, 40);
  CHECK(told(n.say(1, in::MigDone{40})) == Told{"1 GoAhead 7"});
  CHECK(n.at(1).context());
}

TEST_CASE("a context that stays is given back for a program that asks for memory there") {
  Node n(small_settings(), {100});
  leave_one(n);
  CHECK(told(n.say(2, in::CudaMalloc{8, 60})) == Told{"2 GoAhead 8"});  // there is room
  n.take(0, 60);
  n.say(2, in::MallocDone{8, 80});
  CHECK(told(n.say(2, in::CudaMalloc{9, 10})) == Told{"1 Deepen"});
  CHECK(told(n.after(1ms)) == Told{});  // it is on its way
  CHECK(told(gives_the_rest_back(n, 1)) == Told{"2 GoAhead 9"});
  CHECK(n.policy.accounting().gpus[0].staying == 0);
}

TEST_CASE("a context that stays is given back for a program that waits for the GPU") {
  Node n(small_settings(), {100});
  leave_one(n);
  CHECK(told(n.say(2, in::CudaMalloc{8, 55})) == Told{"2 GoAhead 8"});
  n.take(0, 55);
  n.say(2, in::MallocDone{8, 75});
  n.join(3);
  CHECK(told(n.say(3, in::Connect{})) == Told{"1 Deepen"});  // 5 bytes are free
  CHECK(told(gives_the_rest_back(n, 1)) == Told{"3 Connect GPU0"});
}

TEST_CASE("memory of a program that has just ended is waited for instead") {
  Node n(small_settings(), {100});
  leave_one(n);
  n.policy.measured(0, 60, false, true);
  CHECK(told(n.say(2, in::Fin{})) == Told{});  // it needs 70
  n.free(0, 90);
  CHECK(told(n.after(1s)) == Told{"1 Migrate GPU0"});
}

TEST_CASE("a refusal to give it back is repeated after a while, three times") {
  Node n(small_settings(), {100});
  leave_one(n);
  n.say(2, in::CudaMalloc{8, 60});
  n.take(0, 60);
  n.say(2, in::MallocDone{8, 80});
  for (int i = 0; i < 3; i++) {
    CHECK(told(i == 0 ? n.say(2, in::CudaMalloc{9, 10}) : n.after(1s)) == Told{"1 Deepen"});
    // After the last one it is nothing that the request could wait for: its own program leaves.
    CHECK(told(n.say(1, in::Failed{"the driver cannot be locked"})) ==
          (i < 2 ? Told{} : Told{"2 SuspendMemory"}));
    CHECK(n.phase(1) == Phase::Evicted);
  }
}

TEST_CASE("a program that does not answer is not waited for") {
  Node n(small_settings(), {100});
  leave_one(n);
  n.say(2, in::CudaMalloc{8, 60});
  n.take(0, 60);
  n.say(2, in::MallocDone{8, 80});
  CHECK(told(n.say(2, in::CudaMalloc{9, 10})) == Told{"1 Deepen"});
  CHECK(told(n.after(61s)) == Told{"2 SuspendMemory"});
}

TEST_CASE("a program whose context frees too little leaves with it") {
  Settings s = small_settings();
  s.victim = Victim::Cheapest;
  Node n(s, {100});
  start_with(n, 1, 20);
  start_with(n, 2, 40);
  // 20 bytes are free. Program 1 has 20, and a context of 10.
  n.now += 10s;
  CHECK(told(n.say(2, in::CudaMalloc{8, 45})) == Told{"1 Signal"});
  CHECK(told(n.say(1, in::Query{})) == Told{"1 Suspend"});
}

TEST_CASE(
    "a program that loads code with a heap has the GPU for itself, without contexts of others") {
  Node n(small_settings(), {100});
  leave_one(n);
  CHECK(told(n.say(2, in::Load{8, 0, true})) == Told{"1 Deepen"});
  CHECK(told(gives_the_rest_back(n, 1)) == Told{"2 GoAhead 8"});
}

TEST_CASE("a program that resumes on another GPU gives its context back by itself") {
  Node n(small_settings(), {100, 100});
  n.free(1, 5, true);  // others use GPU1
  start_with(n, 1, 40);
  start_with(n, 2, 20);
  CHECK(told(n.say(1, in::CudaMalloc{7, 30})) == Told{"1 SuspendMemory"});
  leaves_memory(n, 1);
  n.free(1, 100);
  CHECK(told(n.after(1s)) == Told{"1 Migrate GPU1"});
  CHECK(n.policy.accounting().gpus[1].reserved == 80);
  CHECK(n.policy.accounting().gpus[0].freeing == kStays);
  CHECK(told(gives_the_rest_back(n, 1)) == Told{});
  CHECK(n.policy.accounting().gpus[0].freeing == 0);
  n.take(1, 50);
  CHECK(told(n.say(1, in::MigDone{40})) == Told{"1 GoAhead 7"});
}

TEST_CASE("a new Manager learns what stays") {
  Node n(small_settings(), {100});
  n.free(0, 90);
  n.say(1, in::Join{
               .version = managed::kVersion, .standing = managed::Standing::Suspended, .used = 40});
  n.say(1, in::Evicted{40, "GPU0"});
  CHECK(n.policy.accounting().gpus[0].stayers == 1);
  // Suspended by a tool, so it does not resume. What stays is given back nevertheless.
  n.join(2);
  CHECK(told(n.say(2, in::Connect{})) == Told{"2 Connect GPU0"});
  n.take(0, 10);
  n.policy.footprint(2, 10);
  n.say(2, in::ContextCheck{});
  CHECK(told(n.say(2, in::CudaMalloc{8, 85})) == Told{"1 Deepen"});
}

TEST_CASE(
    "a program that needs the GPU for itself gives its own context back if that is in its way") {
  Settings s = small_settings();
  s.startup_delay = 1ms;
  Node n(s, {80});
  n.free(0, 60);
  // Its variables are there already, but this Manager has not seen them: it needs 33 + 19 + 13.
  n.say(1, in::Join{.version = managed::kVersion,
                    .standing = managed::Standing::Evicted,
                    .used = 33,
                    .variables = 19});
  n.say(1, in::Evicted{33, "GPU0"});
  n.say(1, in::Load{5, 13, true});
  CHECK(told(n.after(1ms)) == Told{"1 Deepen"});
  CHECK(told(n.after(1ms)) == Told{});  // it is on its way
  n.give(0, 20);
  CHECK(told(n.say(1, in::Evicted{33, ""})) == Told{"1 Migrate GPU0"});
}
