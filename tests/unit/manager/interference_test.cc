// SPDX-License-Identifier: Apache-2.0
//
// Interference of workloads: what progress reports teach, and what the Manager does because of it.
#include "manager/policy/placement/interference.h"

#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;
using namespace std::chrono_literals;

namespace {

constexpr u64 kA = 11, kB = 12;

Settings roomy() {
  Settings s;
  s.context_bytes = 10;
  s.min_residency = Time{0};
  s.placement = PlacementMode::Interference;
  return s;
}

// Each program of `rates` runs for `seconds` on GPU0 and makes that many calls per second.
void run(Node &n, const std::vector<std::pair<ProgramId, u64>> &rates, int seconds) {
  for (int i = 0; i < seconds; i++) {
    n.now += 1s;
    for (auto [p, rate] : rates) n.say(p, in::Progress{n.at(p).workload.calls + rate, 0});
  }
}

void start(Node &n, ProgramId p, u64 profile) {
  n.join(p);
  n.say(p, in::Workload{profile});
  REQUIRE(told(n.say(p, in::Connect{})) == Told{fmt::format("{} Connect GPU0", p)});
  n.take(0, 10);
  n.policy.footprint(p, 10);
  n.say(p, in::ContextCheck{});
}

void ends(Node &n, ProgramId p) {
  n.give(0, 10);
  n.say(p, in::Fin{});
}

// A node where A and B each make 100 calls per second alone, and `beside` beside each other.
Node taught(const Settings &s, u64 beside) {
  Node n(s, {100});
  start(n, 1, kA);
  run(n, {{1, 100}}, 6);
  start(n, 2, kB);
  run(n, {{1, beside}, {2, beside}}, 6);
  ends(n, 1);
  run(n, {{2, 100}}, 6);
  ends(n, 2);
  return n;
}

Told asks_beside(Node &n, u64 profile, ProgramId p) {
  n.join(p);
  n.say(p, in::Workload{profile});
  return told(n.say(p, in::Connect{}));
}

}  // namespace

TEST_CASE("the throughput of two workloads follows from their rates alone and together") {
  Interference interference(1s);
  constexpr ProfileIndex a = 0, b = 1;
  interference.measured(10s, a, b, 600, 10s);
  interference.measured(10s, b, a, 30, 10s);
  CHECK_FALSE(interference.throughput(a, b));
  interference.measured(20s, a, kNoProfile, 1000, 10s);
  interference.measured(20s, b, kNoProfile, 100, 10s);
  REQUIRE(interference.throughput(a, b));
  CHECK(*interference.throughput(a, b) == doctest::Approx(0.9));
  CHECK(*interference.throughput(b, a) == doctest::Approx(0.9));
  CHECK(interference.kept_apart(20s, a, b));
  CHECK(interference.kept_apart(20s, b, a));
  // The finding expires, so that an error is corrected. Only observations of both renew it.
  CHECK_FALSE(interference.kept_apart(221s, a, b));
  interference.measured(221s, a, kNoProfile, 100, 1s);
  CHECK_FALSE(interference.kept_apart(221s, a, b));
  interference.measured(230s, a, b, 60, 1s);
  CHECK(interference.kept_apart(230s, a, b));
  // Two programs of one workload are a pair as well.
  interference.measured(20s, a, a, 550, 10s);
  CHECK(*interference.throughput(a, a) == doctest::Approx(1.1));
  CHECK_FALSE(interference.kept_apart(20s, a, a));
}

TEST_CASE("a few calls are not enough for a finding") {
  Interference interference(1s);
  constexpr ProfileIndex a = 0;
  interference.measured(10s, a, kNoProfile, 20, 10s);
  interference.measured(10s, a, a, 1000, 100s);
  CHECK_FALSE(interference.throughput(a, a));
  interference.measured(11s, a, kNoProfile, 10, 5s);
  CHECK(interference.throughput(a, a));
  Interference hasty(1s);
  hasty.measured(10s, a, kNoProfile, 1000, 2s);
  hasty.measured(10s, a, a, 1000, 2s);
  CHECK_FALSE(hasty.throughput(a, a));
}

TEST_CASE(
    "the median of the latest intervals counts, until the index belongs to another workload") {
  Interference interference(1s);
  constexpr ProfileIndex a = 0;
  for (int i = 0; i < 100; i++) interference.measured(10s, a, kNoProfile, 1000, 10s);
  interference.measured(10s, a, a, 450, 10s);
  CHECK(*interference.throughput(a, a) == doctest::Approx(0.9));
  for (int i = 0; i < 20; i++) interference.measured(10s, a, kNoProfile, 1, 100s);  // it waits
  CHECK(*interference.throughput(a, a) == doctest::Approx(0.9));
  for (int i = 0; i < 60; i++) interference.measured(10s, a, kNoProfile, 500, 10s);
  CHECK(*interference.throughput(a, a) == doctest::Approx(1.8));
  interference.forget(a);
  CHECK_FALSE(interference.throughput(a, a));
}

TEST_CASE("a pair that loses is kept apart, and one that gains is not") {
  Node bad = taught(roomy(), 49);
  CHECK(bad.policy.findings().size() == 1);
  start(bad, 3, kA);
  CHECK(asks_beside(bad, kB, 4) == Told{});
  CHECK(asks_beside(bad, 99, 5) == Told{"5 Connect GPU0"});  // unknown pairs are tried
  bad.say(5, in::Fin{});
  bad.give(0, 10);
  CHECK(told(bad.say(3, in::Fin{})) == Told{"4 Connect GPU0"});

  Node good = taught(roomy(), 60);
  start(good, 3, kA);
  CHECK(asks_beside(good, kB, 4) == Told{"4 Connect GPU0"});

  Settings any = roomy();
  any.placement = PlacementMode::FirstFit;
  Node careless = taught(any, 49);
  start(careless, 3, kA);
  CHECK(asks_beside(careless, kB, 4) == Told{"4 Connect GPU0"});
}

TEST_CASE("an evicted program does not resume beside one that it loses with") {
  Node n = taught(roomy(), 40);
  start(n, 3, 99);
  n.has(3, 30);
  start(n, 4, kA);
  n.has(4, 30);
  CHECK(told(n.say(4, in::CudaMalloc{1, 40})) == Told{"4 Suspend"});
  n.leaves(4, 10);
  start(n, 5, kB);
  n.give(0, 40);
  CHECK(told(n.say(3, in::Fin{})) == Told{});  // now it would fit
  n.give(0, 10);
  CHECK(told(n.say(5, in::Fin{})) == Told{"4 Migrate GPU0"});
}

TEST_CASE("a program is not kept apart forever, nor kept out by later programs") {
  Settings s = roomy();
  s.starvation_limit = 10s;
  s.pairing_limit = 20s;
  Node n = taught(s, 40);
  start(n, 3, kA);
  CHECK(asks_beside(n, kB, 4) == Told{});
  CHECK(told(n.after(31s)) == Told{});     // it starves, and is still kept apart …
  CHECK(asks_beside(n, kA, 5) == Told{});  // … and no other A is admitted before it
  CHECK(told(n.after(19s)) == Told{});
  CHECK(told(n.after(2s)) == Told{"4 Connect GPU0"});
}

TEST_CASE(
    "a program is left alone for a moment if only its rate alone is missing for a known pair") {
  Settings s = roomy();
  Node n(s, {100});
  start(n, 1, kA);
  start(n, 2, kB);
  run(n, {{1, 40}, {2, 40}}, 6);
  ends(n, 2);
  n.say(1, in::Progress{n.at(1).workload.calls, 0});
  // B arrives again. A gets a moment to show its rate alone.
  CHECK(asks_beside(n, kB, 3) == Told{});
  run(n, {{1, 100}}, 3);
  n.now += 1s;
  CHECK(told(n.say(1, in::Progress{n.at(1).workload.calls + 100, 0})) == Told{"3 Connect GPU0"});
  // The moment is bounded for a program that makes no progress.
  Node still(s, {100});
  start(still, 1, kA);
  start(still, 2, kB);
  run(still, {{1, 40}, {2, 40}}, 6);
  ends(still, 2);
  CHECK(asks_beside(still, kB, 3) == Told{});
  CHECK(told(still.after(9s)) == Told{});
  CHECK(told(still.after(2s)) == Told{"3 Connect GPU0"});
}

TEST_CASE("programs are kept alone for a small part of all time") {
  Interference interference(1s);
  for (ProfileIndex k = 0; k < 40; k++) {
    interference.measured(1s, k, 0, 100, 10s);
    interference.measured(1s, 0, k, 100, 10s);
  }
  int held = 0;
  for (int second = 1; second <= 400; second++)
    held += interference.needs_rate_alone(Time(second * 1s),
                                          static_cast<ProfileIndex>(second % 400 / 10), 0);
  CHECK(held > 5);
  CHECK(held < 25);
}

TEST_CASE("an interval counts only if the programs on the GPU stayed the same") {
  Settings s = roomy();
  Node n(s, {100});
  start(n, 1, kA);
  run(n, {{1, 100}}, 2);
  // Another program comes and goes between two reports of the first.
  start(n, 2, kB);
  ends(n, 2);
  n.now += 1s;
  n.say(1, in::Progress{1'000'000, 0});
  run(n, {{1, 100}}, 10);
  start(n, 3, kA);
  run(n, {{1, 50}, {3, 50}}, 10);
  REQUIRE(n.policy.findings().size() == 1);
  CHECK(n.policy.findings()[0].throughput == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("a program that is nearly finished or has just resumed is spared") {
  Settings s = roomy();
  s.victim = Victim::Cheapest;
  s.min_residency = 2s;
  Node n(s, {200});
  start(n, 1, kA);
  run(n, {{1, 100}}, 10);
  ends(n, 1);  // A makes 1000 calls
  start(n, 2, kA);
  n.has(2, 20);
  start(n, 3, kB);
  n.has(3, 40);
  start(n, 4, 99);
  n.has(4, 50);
  run(n, {{2, 85}, {3, 85}}, 10);
  // 2 has fewer bytes, and is nearly finished.
  CHECK(told(n.say(4, in::CudaMalloc{1, 70})) == Told{"3 Signal"});
  CHECK(told(n.say(3, in::Query{})) == Told{"3 Suspend"});
}
