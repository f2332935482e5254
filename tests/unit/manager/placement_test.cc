// SPDX-License-Identifier: Apache-2.0
//
// Profiles of workloads, and which program is placed because of them (--placement demand).
#include "manager/policy/placement/links.h"
#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;
using namespace std::chrono_literals;

namespace {

constexpr u64 kCopies = 11, kComputes = 12, kGB = 1'000'000'000;
constexpr u64 kContext = 10;
// After this a program no longer belongs to the cohort of an earlier one (cohort_test.cc).
constexpr Time kNotTogether = 31s;

Settings mixed() {
  Settings s;
  s.context_bytes = kContext;
  s.min_residency = 1s;
  s.placement = PlacementMode::Demand;
  return s;
}

void announce(Node &n, ProgramId p, u64 profile, i32 priority = 0) {
  n.join(p, priority);
  n.say(p, in::Workload{profile});
}

void placed(Node &n, ProgramId p, u64 profile) {
  announce(n, p, profile);
  REQUIRE(told(n.say(p, in::Connect{})) == Told{fmt::format("{} Connect GPU0", p)});
  n.take(0, kContext);
  n.policy.footprint(p, n.at(p).used + kContext);
  n.say(p, in::ContextCheck{});
}

void run(Node &n, ProgramId p, int seconds, u64 copied) {
  for (int i = 0; i < seconds; i++) {
    n.now += 1s;
    n.say(p,
          in::Progress{n.at(p).workload.calls + 100, 0, n.at(p).workload.interval.copied + copied});
  }
}

Orders ends(Node &n, ProgramId p) {
  n.give(0, kContext + n.at(p).used);
  return n.say(p, in::Fin{});
}

// A GPU of `bytes` on which both workloads have run; each used `had` bytes.
Node taught(u64 bytes, u64 had, Settings settings = mixed()) {
  Node n(settings, {bytes});
  for (u64 profile : {kCopies, kComputes}) {
    ProgramId p = static_cast<ProgramId>(profile);
    placed(n, p, profile);
    n.has(p, had);
    run(n, p, 10, profile == kCopies ? 2 * kGB : kGB / 1000);
    CHECK(told(ends(n, p)) == Told{});
  }
  return n;
}

// Two programs of this kind, 1 and 2, leave no room for a third.
Node crowded(u64 profile = kComputes, Settings settings = mixed()) {
  Node n = taught(200, 80, settings);
  for (ProgramId p : {1, 2}) {
    placed(n, p, profile);
    n.has(p, 80);
  }
  return n;
}

Told connects(Node &n, ProgramId p, u64 profile, i32 priority = 0) {
  announce(n, p, profile, priority);
  return told(n.say(p, in::Connect{}));
}

}  // namespace

TEST_CASE("of too many profiles, the one that was used longest ago is replaced") {
  WorkloadProfiles profiles;
  ProfileIndex a = profiles.find(0s, kCopies, "a").index;
  profiles.ended(a, 100, 5);
  CHECK(profiles.find(0s, kCopies, "a").index == a);
  CHECK_FALSE(profiles.find(0s, kCopies, "a").is_new);
  CHECK(profiles.calls(a) == 100);
  CHECK(profiles.peak(a) == 5);
  for (u64 hash = 100; hash < 2000; hash++) {
    CHECK(profiles.find(Time(hash), hash, "x").index < 256);
    CHECK(profiles.find(Time(hash), hash, "x").is_new == false);
  }
  WorkloadProfiles::Found again = profiles.find(3s, kCopies, "a");
  CHECK(again.is_new);
  CHECK(profiles.calls(again.index) == 0);
}

TEST_CASE("another Manager can load the profiles") {
  WorkloadProfiles old, fresh;
  for (int i = 0; i < 3; i++) old.copied(old.find(0s, kCopies, "a").index, 2 * kGB, 1s);
  ProfileIndex unseen = old.find(0s, kComputes, "b").index;
  u64 before = old.changes();
  old.ended(unseen, 50, 7);
  CHECK(old.changes() != before);
  for (const ProfileFacts &facts : old.facts()) fresh.learn(1s, facts);
  ProfileIndex a = fresh.find(2s, kCopies, "").index, b = fresh.find(2s, kComputes, "").index;
  CHECK(fresh.name(a) == "a");
  CHECK(fresh.demand(a).bus == doctest::Approx(0.7));
  CHECK_FALSE(fresh.demand(b).known);
  CHECK(fresh.calls(b) == 50);
  CHECK(fresh.peak(b) == 7);
  // A file may contain any number.
  fresh.learn(3s, {.hash = 5, .copied = 1e18, .observed = 1e18});
  fresh.learn(3s, {.hash = 6, .copied = 1e18, .observed = 1e-18});
  CHECK(fresh.demand(fresh.find(4s, 6, "").index).bus <= 0.7);
}

TEST_CASE("the workload that copies fastest is busy with the bus, and others in proportion") {
  WorkloadProfiles profiles;
  ProfileIndex a = profiles.find(0s, 1, "a").index, b = profiles.find(0s, 2, "b").index;
  ProfileIndex c = profiles.find(0s, 3, "c").index;
  CHECK_FALSE(profiles.demand(a).known);
  CHECK_FALSE(profiles.demand(kNoProfile).known);
  for (int i = 0; i < 4; i++) {
    CHECK_FALSE(profiles.demand(a).known);
    profiles.copied(a, 4 * kGB, 1s);
    profiles.copied(b, kGB, 1s);
    profiles.copied(c, 0, 1s);
  }
  CHECK(profiles.demand(a).bus == doctest::Approx(0.7));
  CHECK(profiles.demand(b).bus == doctest::Approx(0.35));
  CHECK(profiles.demand(c).bus == 0);
  CHECK(profiles.demand(c).kernels == 1);
  // If no workload copies much, none needs the bus much.
  WorkloadProfiles quiet;
  ProfileIndex d = quiet.find(0s, 4, "d").index;
  for (int i = 0; i < 4; i++) quiet.copied(d, kGB / 100, 1s);
  CHECK(quiet.demand(d).bus == doctest::Approx(0.14));
}

TEST_CASE("a load is that of the busier engine, and copies delay each other") {
  Demand copies{0.3, 0.7, true}, computes{1, 0, true};
  auto of = [](std::initializer_list<Demand> all) {
    Load load;
    for (const Demand &d : all) load.add(d);
    return load.stretch();
  };
  CHECK(of({copies}) == 1);
  CHECK(of({copies, computes}) == doctest::Approx(1.3));
  CHECK(of({computes, computes}) == doctest::Approx(2));
  CHECK(of({copies, copies}) == doctest::Approx(1.96));
}

TEST_CASE("beside a program that computes, one that copies is placed first") {
  Node n = crowded();
  // The next program computes, too, and is passed over.
  CHECK(connects(n, 3, kComputes) == Told{});
  n.now += kNotTogether;
  CHECK(connects(n, 4, kCopies) == Told{});
  CHECK(told(ends(n, 2)) == Told{"4 Connect GPU0"});
  CHECK(n.at(3).workload.times_skipped == 1);
  CHECK(n.phase(3) == Phase::Pending);
}

TEST_CASE("by the contention model, copies slow each other down as the node's links make them") {
  const schedule::Bandwidths paper;
  const double copies[] = {0.7}, computes[] = {0};
  CHECK(slowdown_by_links(copies, {}, paper) == 1);
  CHECK(slowdown_by_links(copies, computes, paper) == 1);
  // Both copy for 0.49 of the time. The memory then moves 10.5 GB/s of the 15.6 that they ask for.
  CHECK(slowdown_by_links(copies, copies, paper) == doctest::Approx(1 + 0.49 * (15.6 / 10.5 - 1)));
  const double both[] = {0.7, 0};
  CHECK(slowdown_by_links(both, copies, paper) == slowdown_by_links(copies, copies, paper));
}

TEST_CASE("with links that are wide enough, copies no longer keep a program back") {
  auto placed_beside_copies = [](Settings settings) {
    Node n = crowded(kCopies, settings);
    CHECK(connects(n, 3, kCopies) == Told{});
    CHECK(connects(n, 4, kComputes) == Told{});
    return told(ends(n, 2));
  };
  Settings wide = mixed();
  wide.links =
      schedule::Bandwidths{.core = 1000, .cpu = 1000, .memory = 1000, .link = 1000, .copy = 3};
  CHECK(placed_beside_copies(mixed()) == Told{"4 Connect GPU0"});
  CHECK(placed_beside_copies(wide) == Told{"3 Connect GPU0"});
}

TEST_CASE("an unknown workload is tried where a known one would gain nothing") {
  Node n = crowded();
  CHECK(connects(n, 3, kComputes) == Told{});
  ProgramId next = 4;
  SUBCASE("unless it never reports its copies") {
    n.say(4, in::Uses{managed::kOpenCl});
    next = 3;
  }
  SUBCASE("because it will report its copies") {}
  announce(n, 4, 99);
  n.say(4, in::CudaMalloc{7, 80});
  n.say(4, in::Connect{});
  Told said = told(ends(n, 2));
  REQUIRE_FALSE(said.empty());
  CHECK(said[0] == fmt::format("{} Connect GPU0", next));
}

TEST_CASE("first fit places programs in their order") {
  Settings s = mixed();
  s.placement = PlacementMode::FirstFit;
  Node n(s, {200});
  placed(n, 1, kComputes);
  n.has(1, 80);
  placed(n, 2, kComputes);
  n.has(2, 80);
  n.start(9, 0, kContext);
  n.start(8, 0, kContext);
  CHECK(connects(n, 3, kComputes) == Told{});
  CHECK(connects(n, 4, kCopies) == Told{});
  CHECK(told(ends(n, 2)) == Told{"3 Connect GPU0"});
}

TEST_CASE("a program is passed over at most four times, and not for a lower priority") {
  Node n = crowded();
  CHECK(connects(n, 3, kComputes, 1) == Told{});
  CHECK(connects(n, 4, kComputes) == Told{});
  n.now += kNotTogether;
  for (ProgramId p = 20; p < 30; p++) CHECK(connects(n, p, kCopies) == Told{});
  CHECK(told(ends(n, 2)) == Told{"3 Connect GPU0"});
  n.take(0, kContext);
  n.has(3, 80);
  CHECK(told(ends(n, 3)) == Told{"20 Connect GPU0"});
  for (ProgramId p = 20; p < 24; p++) {
    n.take(0, kContext);
    n.has(p, 80);
    ProgramId next = p < 23 ? p + 1 : 4;
    CHECK(told(ends(n, p)) == Told{fmt::format("{} Connect GPU0", next)});
  }
}

TEST_CASE("the starving program, too, may be passed over, and its reservation used") {
  Node n = crowded();
  CHECK(connects(n, 3, kComputes) == Told{});
  CHECK(connects(n, 4, kCopies) == Told{});
  n.after(60s);
  CHECK(told(ends(n, 2)) == Told{"4 Connect GPU0"});
  // The memory that was expected of program 4 is not kept for the starving program.
  n.take(0, kContext);
  CHECK(told(n.say(4, in::CudaMalloc{1, 80})) == Told{"4 GoAhead 1"});
}

TEST_CASE("a program waits until the memory that its workload has used is free") {
  Node n = taught(200, 80);
  placed(n, 1, kComputes);
  n.has(1, 80);
  placed(n, 2, kComputes);  // has not asked for memory yet
  CHECK(connects(n, 3, kCopies) == Told{});
  SUBCASE("the expected memory is kept") {
    CHECK(connects(n, 4, 99) == Told{"4 Connect GPU0"});  // an unknown workload
    CHECK(told(n.after(2s)) == Told{});
  }
  SUBCASE("but not for long") { CHECK(told(n.after(10s)) == Told{"3 Connect GPU0"}); }
  SUBCASE("and not once the program has it") {
    n.has(2, 80);
    CHECK(connects(n, 4, 99) == Told{"4 Connect GPU0"});
  }
}

TEST_CASE("the peak that a program reports at its end includes its credit") {
  Node n = taught(200, 20);
  placed(n, 1, kComputes);
  n.give(0, kContext);
  n.say(1, in::Fin{120});
  placed(n, 2, 99);
  n.has(2, 100);
  CHECK(connects(n, 3, kComputes) == Told{});  // 120 are not free
  CHECK(connects(n, 4, kCopies) == Told{"4 Connect GPU0"});
}

TEST_CASE("the expected memory does not keep a program from an empty GPU") {
  Node n = taught(400, 300);
  bool foreign = false;
  SUBCASE("with room") {}
  SUBCASE("where an unmanaged process uses the rest") { foreign = true; }
  n.free(0, 100, foreign);
  CHECK(connects(n, 1, kCopies) == Told{"1 Connect GPU0"});
}

TEST_CASE("expected memory is not kept forever for a program that does not ask for it") {
  Node n = taught(200, 120);
  SUBCASE("without a context") {
    CHECK(connects(n, 1, kCopies) == Told{"1 Connect GPU0"});
    CHECK(connects(n, 2, 99) == Told{"2 Connect GPU0"});
    CHECK(connects(n, 3, kCopies) == Told{});
    CHECK(told(n.after(9s)) == Told{});
    CHECK(told(n.after(1s)) == Told{"3 Connect GPU0"});
  }
  SUBCASE("across many short runs") {
    placed(n, 1, kCopies);
    for (int i = 0; i < 5; i++) {
      CHECK(n.at(1).workload.expected == 120);
      n.after(2s);
      n.say(1, in::Join{.version = managed::kVersion,
                        .pid = 1,
                        .name = "p",
                        .standing = managed::Standing::Running,
                        .gpu = "GPU0"});
    }
    CHECK(n.at(1).workload.expected == 0);
  }
  SUBCASE("the starving program waits no longer than the pairing limit") {
    placed(n, 1, 99);
    n.has(1, 80);
    CHECK(connects(n, 2, kCopies) == Told{});
    n.after(30s);
    CHECK(told(n.after(299s)) == Told{});
    CHECK(told(n.after(1s)) == Told{"2 Connect GPU0"});
  }
}

TEST_CASE("a GPU that is too small for the workload is the last choice") {
  Node n(mixed(), {100, 400});
  announce(n, 1, kCopies);
  n.say(1, in::Fin{300});
  CHECK(connects(n, 2, 99) == Told{"2 Connect GPU1"});  // the GPU with the most free memory
  CHECK(connects(n, 3, kCopies) == Told{"3 Connect GPU1"});
}

TEST_CASE("an index that belongs to another workload by now is not used") {
  Node n = taught(200, 120);
  placed(n, 1, kCopies);
  CHECK(n.at(1).workload.expected == 120);
  for (u64 hash = 1000; hash < 1300; hash++) {
    n.now += 1us;
    announce(n, static_cast<ProgramId>(hash), hash);
    n.say(static_cast<ProgramId>(hash), in::Fin{5});
  }
  CHECK(n.at(1).workload.expected == 0);
  u64 peak = 0;
  n.say(1, in::Fin{77});
  for (const ProfileFacts &k : n.policy.profiles().facts()) peak += k.hash == kCopies ? k.peak : 0;
  CHECK(peak == 77);
}

TEST_CASE("learned figures are bounded, whatever a file or a program says") {
  Node n(mixed(), {200});
  n.policy.learn(0s, {{.hash = kCopies, .peak = ~u64{0}}});
  placed(n, 1, 99);
  CHECK(connects(n, 2, kCopies) == Told{});
  WorkloadProfiles profiles;
  ProfileIndex a = profiles.find(0s, 1, "a").index;
  for (int i = 0; i < 9; i++) profiles.copied(a, ~u64{0}, 1s);
  CHECK(profiles.facts()[a].copied < 1e13);
}

TEST_CASE("a program that asks again for a variable keeps its waiting time") {
  Settings s = mixed();
  s.placement = PlacementMode::FirstFit;
  Node n(s, {100});
  n.start(1, 0, kContext);
  n.has(1, 80);
  n.join(2);
  CHECK(told(n.say(2, in::Connect{30})) == Told{});
  n.now += 1s;
  n.join(3);
  CHECK(told(n.say(3, in::Connect{30})) == Told{});
  n.after(60s);
  n.give(0, 50);
  n.say(1, in::CudaFree{30});  // 60 are free
  REQUIRE(n.at(2).gpu() == 0);
  // It was assigned for its first variable. There is no room for the second yet, and no other
  // program takes what it gives up.
  CHECK(told(n.say(2, in::Connect{60})) == Told{});
  CHECK(n.phase(2) == Phase::Pending);
  CHECK(n.phase(3) == Phase::Pending);
  n.give(0, 40);
  CHECK(told(n.say(1, in::Fin{})) == Told{"2 Connect GPU0"});
}

TEST_CASE("a program that asks again keeps its GPU if that much was expected of it") {
  Settings s = mixed();
  s.placement = PlacementMode::FirstFit;
  s.starvation_limit = 5s;
  Node n(s, {200});
  n.policy.learn(0s, {{.hash = kCopies, .name = "copies", .peak = 80}});
  n.learn(kContext);
  n.start(1, 0, kContext);
  n.has(1, 80);
  CHECK(connects(n, 2, kCopies) == Told{"2 Connect GPU0"});
  n.join(3);
  CHECK(told(n.say(3, in::Connect{80})) == Told{});
  CHECK(told(n.after(5s)) == Told{});  // 3 is the starving program
  CHECK(told(n.say(2, in::Connect{60})) == Told{"2 Connect GPU0"});
  CHECK(told(n.say(2, in::Connect{80})) == Told{"2 Connect GPU0"});
  SUBCASE("but not if it asks for more") {
    CHECK(told(n.say(2, in::Connect{90})) == Told{"3 Connect GPU0"});
  }
}
