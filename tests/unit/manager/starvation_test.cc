// SPDX-License-Identifier: Apache-2.0
//
// The order of waiting programs: priorities, and the starving program.
#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;
using namespace std::chrono_literals;

TEST_CASE("a large program does not starve behind small ones") {
  Node n(small_settings(), {100});
  n.start(1, 0, 10);
  n.start(2, 0, 10);
  n.has(1, 40);
  n.has(2, 20);
  CHECK(told(n.say(2, in::CudaMalloc{1, 60})) == Told{"2 Suspend"});
  n.leaves(2, 10);  // it needs 90
  // Small programs come and go, first fit.
  n.now += 10s;
  n.start(3, 0, 10);
  n.now += 25s;
  // Now program 2 starves: what becomes free is kept for it, and no new program is admitted.
  n.join(4);
  CHECK(told(n.say(4, in::Connect{})) == Told{});
  // A program that asks for more makes room, too.
  CHECK(told(n.say(3, in::CudaMalloc{1, 20})) == Told{"3 Suspend"});
  CHECK(told(n.leaves(3, 10)) == Told{});
  n.give(0, 50);
  CHECK(told(n.say(1, in::Fin{})) == Told{"2 Migrate GPU0", "4 Connect GPU0"});
}

TEST_CASE("without a starvation limit, small programs keep being admitted first") {
  Settings s = small_settings();
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

TEST_CASE("the program with the higher priority is served first") {
  Node n(small_settings(), {100});
  n.start(1, 0, 10);
  n.has(1, 85);
  n.join(2);
  n.join(3, 7);
  n.say(2, in::Connect{50});
  n.say(3, in::Connect{50});
  n.give(0, 95);
  CHECK(told(n.say(1, in::Fin{})) == Told{"3 Connect GPU0"});
}

TEST_CASE(
    "the starving program is the first to arrive of those that waited too long, evicted or not") {
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

TEST_CASE("an assignment is kept for the starving program, too") {
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
  // GPU0 has room for 4 but not for 3, for which the other GPU is reserved.
  n.free(0, 50, true);
  CHECK(told(n.say(1, in::Fin{})) == Told{});
  n.give(1, 40);
  CHECK(told(n.say(2, in::Fin{})) == Told{"3 Connect GPU1", "4 Connect GPU0"});
}
