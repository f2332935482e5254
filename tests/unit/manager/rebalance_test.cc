// SPDX-License-Identifier: Apache-2.0
//
// Programs that move to a GPU that has become idle.
#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;
using namespace std::chrono_literals;

namespace {

Settings rebalancing() {
  Settings s = small_settings();
  s.rebalance_after = 10s;
  return s;
}

// Programs 1 and 3 share GPU0, and program 2 has left GPU1.
struct IdleSecondGpu : Node {
  IdleSecondGpu(u64 gpu_bytes, u64 bytes_of_1, u64 bytes_of_3)
      : Node(rebalancing(), {gpu_bytes, gpu_bytes}) {
    start(1, 0, 10);
    start(2, 1, 10);
    start(3, 0, 10);
    if (bytes_of_1 > 0) has(1, bytes_of_1);
    if (bytes_of_3 > 0) has(3, bytes_of_3);
    give(1, 10);
    CHECK(told(say(2, in::Fin{})) == Told{});
  }
};

}  // namespace

TEST_CASE("a program that shares a GPU moves to one that has become idle") {
  IdleSecondGpu n(100, 30, 20);
  CHECK(n.policy.waits());
  CHECK(told(n.after(9s)) == Told{});
  CHECK(told(n.after(2s)) == Told{"3 Signal"});  // it has fewer bytes to move
  CHECK(told(n.say(3, in::Query{})) == Told{"3 Suspend"});
  CHECK(told(n.leaves(3, 10)) == Told{"3 Migrate GPU1"});
  CHECK(told(n.comes(3, 1, 10)) == Told{});
  CHECK_FALSE(n.policy.waits());
  CHECK(told(n.after(1h)) == Told{});
}

TEST_CASE("a program does not move to a GPU that is too small, or when its move takes long") {
  Settings s = small_settings();
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
  CHECK(told(n.after(1h)) == Told{});  // GPU2 is too small
  n.give(1, 10);
  n.say(2, in::Fin{});
  IdleSecondGpu m(100 * kGb, 30 * kGb, 20 * kGb);
  CHECK(told(m.after(205s)) == Told{});
  CHECK(told(m.after(6s)) == Told{"3 Signal"});  // 10 s, and ten times the move of 20 s
}

TEST_CASE("a program on an unmanaged device is left there, whatever it reports") {
  Node n(rebalancing(), {100, 100});
  n.learn(10);
  n.start(1, 0, 10);
  n.say(2, in::Join{.version = managed::kVersion, .standing = managed::Standing::Running});
  CHECK(told(n.after(1h)) == Told{});
  SUBCASE("a GPU that does not exist cannot be unsuited") {
    n.say(3, in::Uses{static_cast<u32>(managed::Api::kOpenCl)});
    in::Join evicted{.version = managed::kVersion, .standing = managed::Standing::Evicted};
    CHECK(told(n.say(3, evicted)) == Told{"3 Migrate "});
    CHECK(told(n.say(3, in::Unsuited{"x", "why"})) == Told{});
    CHECK(n.at(3).unsuited.empty());
  }
  SUBCASE("its requests are granted") {
    n.join(3);
    n.say(3, in::Failed{"nothing"});
    n.free(0, 0);
    n.free(1, 0);
    CHECK(told(n.say(3, in::Connect{})) == Told{});
    CHECK(told(n.say(3, in::CudaMalloc{1, 50})) == Told{});
    CHECK(told(n.say(3, in::Uses{static_cast<u32>(managed::Api::kOpenCl)})) == Told{"3 Migrate "});
    CHECK(told(n.say(3, in::MigDone{0})) == Told{"3 GoAhead 1"});
    CHECK_FALSE(n.at(3).blocked());
  }
}

TEST_CASE("a GPU on which a program failed to resume is its last choice, and not one to move to") {
  IdleSecondGpu n(100, 0, 0);
  CHECK(told(n.after(11s)) == Told{"1 Signal"});
  CHECK(told(n.say(1, in::Query{})) == Told{"1 Suspend"});
  CHECK(told(n.leaves(1, 10)) == Told{"1 Migrate GPU1"});
  CHECK(told(n.say(1, in::Failed{"another chip"})) == Told{});
  CHECK(told(n.after(1s)) == Told{"1 Migrate GPU0", "3 Signal"});  // and 3 is moved instead
  CHECK(told(n.comes(1, 0, 10)) == Told{});
  CHECK(told(n.say(3, in::Failed{"not now"})) == Told{});
  CHECK(told(n.after(11s)) == Told{"3 Signal"});
}

TEST_CASE("a program that asked twice for its GPU is moved like any other") {
  Node n(rebalancing(), {100, 100});
  n.learn(10);
  n.start(1, 0, 10);
  n.start(2, 1, 10);
  n.join(3);
  CHECK(told(n.say(3, in::Connect{})) == Told{"3 Connect GPU0"});
  CHECK(told(n.say(3, in::Connect{20})) == Told{"3 Connect GPU0"});  // it keeps its GPU
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
