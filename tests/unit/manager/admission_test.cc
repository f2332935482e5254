// SPDX-License-Identifier: Apache-2.0
//
// Limits, requests that cannot be granted, and programs of an earlier Manager.
#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;
using namespace std::chrono_literals;

TEST_CASE("--program-memory limits each program") {
  Settings s = small_settings();
  s.program_bytes = 40;
  Node n(s, {100});
  n.start(1, 0, 10);
  n.has(1, 30);
  CHECK(told(n.say(1, in::CudaMalloc{1, 11})) == Told{"1 OutOfMemory 1"});
  CHECK(told(n.say(1, in::CudaMalloc{2, 10})) == Told{"1 GoAhead 2"});
}

TEST_CASE("a new Manager learns the state of all programs from the programs") {
  Node n(small_settings(), {100});
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
  CHECK(n.policy.programs()[0]->id == 8);  // in order of arrival, not of reconnection
  CHECK(n.policy.accounting().host_kept == 35);
  // Programs repeat their requests.
  CHECK(told(n.say(7, in::CudaMalloc{3, 10})) == Told{});
  n.give(0, 80);
  CHECK(told(n.say(8, in::Fin{})) == Told{"7 Migrate GPU0"});
  CHECK(told(n.comes(7, 0, 10)) == Told{"7 GoAhead 3"});
  CHECK(n.phase(9) == Phase::Evicted);  // suspended by a tool, so the Manager does not resume it
}

TEST_CASE("memory that is not free on an empty GPU is not waited for") {
  Node n(small_settings(), {100});
  n.free(0, 80, true);
  n.join(1);
  CHECK(told(n.say(1, in::Connect{85})) == Told{});  // an unmanaged process is there, and may leave
  n.free(0, 80, false);
  CHECK(told(n.after(1s)) == Told{"1 OutOfMemory 0"});  // the driver uses the rest
}

TEST_CASE("messages of unknown programs and messages out of turn have no effect") {
  Node n(small_settings(), {100});
  CHECK(told(n.say(5, in::CudaMalloc{1, 10})) == Told{});
  n.join(1);
  for (const managed::ToManager &m :
       {managed::ToManager(in::MigDone{5}), managed::ToManager(in::SuspendDone{5}),
        managed::ToManager(in::Failed{"no"}), managed::ToManager(in::MallocDone{1, 5})})
    CHECK(told(n.say(1, m)) == Told{});
  CHECK(told(n.say(1, in::Query{})) == Told{"1 GoAhead 0"});
}
