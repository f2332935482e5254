// SPDX-License-Identifier: Apache-2.0
//
// Programs that send false reports.
#include <limits>

#include "tests/unit/manager/fake_node.h"

namespace ckpt::manager {
namespace {

using namespace std::chrono_literals;
using Told = std::vector<std::string>;

Settings with_host_memory(u64 bytes) {
  Settings s;
  s.context_bytes = 10;
  s.min_residency = 0s;
  s.host_bytes = bytes;
  return s;
}

in::Join keeps(managed::Standing standing, u64 bytes) {
  return {
      .version = managed::kVersion, .pid = 9, .name = "liar", .standing = standing, .kept = bytes};
}

// An exclusive program arrives, for which program 1 has to leave.
Told exclusive_comes(Node &n) {
  n.start(1, 0, 10);
  n.has(1, 20);
  n.join(3);
  return told(n.say(3, in::Connect{0, true}));
}

}  // namespace

TEST_CASE("false reports of contents do not use up the host memory of all programs") {
  SUBCASE("a running program keeps nothing") {
    Node n(with_host_memory(100), {100});
    n.say(9, keeps(managed::Standing::Unassigned, 1ull << 43));
    CHECK(exclusive_comes(n) == Told{"1 Signal"});
  }
  SUBCASE("a suspended program keeps at most what a GPU has") {
    Node n(with_host_memory(200), {100});
    n.say(9, keeps(managed::Standing::Suspended, 1ull << 43));
    CHECK(n.at(9).contents().bytes == 100);
    CHECK(exclusive_comes(n) == Told{"1 Signal"});
  }
  SUBCASE("so does a program that is evicted") {
    Node n(with_host_memory(200), {100});
    CHECK(exclusive_comes(n) == Told{"1 Signal"});
    n.say(1, in::Query{});
    n.say(1, in::SuspendDone{1ull << 43});
    CHECK(n.at(1).contents().bytes == 100);
  }
}

TEST_CASE("the lowest possible priority is the lowest") {
  Node n(with_host_memory(100), {100});
  n.start(1, 0, 10);
  n.has(1, 80);
  n.join(2, std::numeric_limits<i32>::min());
  n.join(3);
  for (ProgramId p : {2u, 3u}) CHECK(told(n.say(p, in::Connect{30})) == Told{});
  n.give(0, 90);
  CHECK(told(n.say(1, in::Fin{})) == Told{"3 Connect GPU0", "2 Connect GPU0"});
}

TEST_CASE("the user with the most profiles loses one, and other users keep theirs") {
  WorkloadProfiles profiles;
  u64 rare = hash_of_user(1000, 7);
  profiles.ended(profiles.find(0s, rare, "rare").index, 100, 5);
  for (u64 i = 1; i < 1000; i++) profiles.find(Time(i), hash_of_user(1001, i), "sweep");
  WorkloadProfiles::Found still = profiles.find(1s, rare, "rare");
  CHECK_FALSE(still.is_new);
  CHECK(profiles.peak(still.index) == 5);
  CHECK(hash_of_user(1000, 7) != hash_of_user(1001, 7));
  CHECK(hash_of_user(1000, 7) != hash_of_user(1000, 8));
}

TEST_CASE("the copy rate of a file is bounded") {
  WorkloadProfiles profiles;
  profiles.learn(0s, {.hash = 7, .copied = 1e18, .observed = 1});
  CHECK(profiles.facts().at(0).copied < 1.1e12);
}

}  // namespace ckpt::manager
