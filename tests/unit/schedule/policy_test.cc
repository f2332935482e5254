// SPDX-License-Identifier: Apache-2.0
//
// The plans that each policy makes, on examples that can be checked by hand. Class 0 is fast, class
// 1 slow; a checkpoint and a restore take 5 s each.
#include "schedule/plan/policy.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace ckpt::schedule;

namespace {

struct Example {
  Workload w{2, {}, {}};
  Cluster cluster{{{"fast", 8, {{0, 5}, {0, 5}}}, {"slow", 8, {{0, 5}, {0, 5}}}}};

  // Class `on` has only 8 - n nodes in these seconds.
  void busy(ClassIndex on, Ticks begin, Ticks end, unsigned n = 8) {
    REQUIRE(
        cluster.classes[on].calendar.reserve(begin * kTicksPerSecond, end * kTicksPerSecond, n));
  }
  Plan plan(PolicyName name, Ticks fast, Ticks slow, const PolicyOptions &options = {}) {
    w.jobs.push_back({.nodes = 8});
    w.run.insert(w.run.end(), {fast * kTicksPerSecond, slow * kTicksPerSecond});
    return Policy(name, options).plan(w, w.jobs.size() - 1, 0, cluster);
  }
};

std::vector<std::string> text(const Plan &plan) {
  std::vector<std::string> all;
  for (const Piece &p : plan)
    all.push_back(fmt::format("{} {}-{}", p.on == 0 ? "fast" : "slow", seconds_of(p.begin),
                              seconds_of(p.end)));
  return all;
}
using Text = std::vector<std::string>;

}  // namespace

TEST_CASE("MCT chooses the class on which the job ends first") {
  Example e;
  e.busy(0, 0, 100);
  CHECK(text(e.plan(PolicyName::Mct, 50, 140)) == Text{"slow 0-140"});
  CHECK(text(e.plan(PolicyName::Mct, 50, 160)) == Text{"fast 100-150"});
}

TEST_CASE("MCT does not start a job before one that was planned there earlier") {
  Example e;
  e.busy(1, 0, 1000);
  e.busy(0, 50, 80);
  e.cluster.classes[0].last_start = 50 * kTicksPerSecond;
  CHECK(text(e.plan(PolicyName::Mct, 20, 20)) == Text{"fast 80-100"});
}

TEST_CASE("MCTB runs in idle intervals of the same class first") {
  Example e;
  e.busy(1, 0, 10000);
  e.busy(0, 40, 100);
  // 40 s, of which 10 are for restore and checkpoint; 70 are left, and a restore.
  CHECK(text(e.plan(PolicyName::Mctb, 100, 200)) == Text{"fast 0-40", "fast 100-175"});
  // The first piece has no restore in truth.
  CHECK(text(e.plan(PolicyName::Mctb, 100, 200, {.charge = Charge::Exact})) ==
        Text{"fast 0-40", "fast 100-170"});
}

TEST_CASE("a job that fits into an idle interval is not moved") {
  Example e;
  e.busy(1, 0, 10000);
  e.busy(0, 40, 100);
  CHECK(text(e.plan(PolicyName::Mctb, 30, 60)) == Text{"fast 0-40"});
  CHECK(text(e.plan(PolicyName::Mctb, 40, 60, {.charge = Charge::Exact})) == Text{"fast 0-40"});
}

TEST_CASE("an interval that is used up by the move is left alone") {
  Example e;
  e.busy(1, 0, 10000);
  e.busy(0, 10, 100);
  CHECK(text(e.plan(PolicyName::Mctb, 100, 200)) == Text{"fast 100-200"});
}

TEST_CASE("a start that saves less than the restore costs is not made") {
  Example e;
  e.busy(1, 0, 10000);
  e.busy(0, 14, 100);
  // 4 s of work, and 5 s for the restore.
  CHECK(text(e.plan(PolicyName::Mctb, 100, 200)) == Text{"fast 100-200"});
}

TEST_CASE("MCTM starts on the other class and moves") {
  Example e;
  e.busy(0, 0, 60);
  // 50 s on slow nodes do a quarter of the work.
  CHECK(text(e.plan(PolicyName::Mctm, 100, 200)) == Text{"slow 0-60", "fast 60-140"});
  CHECK(text(e.plan(PolicyName::Mctb, 100, 200)) == Text{"fast 60-160"});
}

TEST_CASE("MCTM does not use what must be left again for a reservation") {
  Example e;
  e.busy(0, 0, 60);
  e.busy(1, 40, 1000);
  CHECK(text(e.plan(PolicyName::Mctm, 100, 200)) == Text{"fast 60-160"});
  CHECK(text(e.plan(PolicyName::Mctbm, 100, 200)) == Text{"slow 0-40", "fast 60-150"});
}

TEST_CASE("MCTBM leaves a slow class when a faster one becomes idle") {
  Example e;
  e.busy(0, 0, 30);
  e.busy(0, 80, 200);
  // slow 0-30: 20 s, a twentieth; fast 30-80: 40 s of 100; slow 80-200: 110 s of 400.
  CHECK(text(e.plan(PolicyName::Mctbm, 100, 400)) ==
        Text{"slow 0-30", "fast 30-80", "slow 80-200", "fast 200-232.5"});
}

TEST_CASE("an overestimated cost makes the plan careful") {
  Example e;
  e.busy(1, 0, 10000);
  e.busy(0, 40, 100);
  PolicyOptions careful{.overestimate = 3};
  // 10 s of work, and 15 s for the restore.
  CHECK(text(e.plan(PolicyName::Mctb, 100, 200, careful)) == Text{"fast 100-200"});
  Policy policy(PolicyName::Mctb, careful);
  CHECK(policy.planned_cost(e.w.jobs[0], e.cluster.classes[0].of).checkpoint ==
        15 * kTicksPerSecond);
}

TEST_CASE("the time to compile kernels and the wait for queued ones are parts of a move") {
  Job job{.megabytes = 100, .compile_seconds = 2, .wait_seconds = 30};
  ResourceClass c{"fast", 8, {{0.01, 5}, {0.02, 5}}};
  CHECK(real_cost(job, c).checkpoint == 36 * kTicksPerSecond);
  CHECK(real_cost(job, c).restore == 9 * kTicksPerSecond);
  Policy careful(PolicyName::Mctb, {.overestimate = 2});
  CHECK(careful.planned_cost(job, c).checkpoint == 72 * kTicksPerSecond);
}

TEST_CASE("WMCT runs a whole job in an idle interval, and moves only if that pays") {
  Example e;
  e.busy(1, 0, 10000);
  e.busy(0, 40, 100);
  CHECK(text(e.plan(PolicyName::Wmct, 40, 400)) == Text{"fast 0-40"});
  // The first piece has no restore, the last one no checkpoint, whatever the others are charged.
  CHECK(text(e.plan(PolicyName::Wmct, 100, 400, {.waste_weight = 0})) ==
        Text{"fast 0-40", "fast 100-170"});
  CHECK(text(e.plan(PolicyName::Wmct, 100, 400, {.waste_weight = 10})) == Text{"fast 100-200"});
}

TEST_CASE("readings of the paper: which intervals count, and how the last one is used") {
  Example e;
  e.busy(0, 0, 100);
  // The slow class is idle for ever, which is no interval of its own.
  CHECK(text(e.plan(PolicyName::Mctm, 100, 400)).size() == 2);
  CHECK(text(e.plan(PolicyName::Mctm, 100, 400, {.regions = Regions::Bounded})) ==
        Text{"fast 100-200"});
  // Without a cut at the start of MCT, the slow class is left when the fast one becomes idle.
  CHECK(text(e.plan(PolicyName::Mctm, 100, 400, {.regions = Regions::All})) ==
        Text{"slow 0-100", "fast 100-187.5"});
  // The restore that step 7 adds was charged in the interval before.
  Plan charged = e.plan(PolicyName::Mctm, 100, 400);
  Plan printed = e.plan(PolicyName::Mctm, 100, 400, {.final_restore = false});
  CHECK(charged.back().end - printed.back().end == 5 * kTicksPerSecond);
  Example holes;
  holes.busy(1, 0, 10000);
  holes.busy(0, 60, 100);
  CHECK(text(holes.plan(PolicyName::Mctb, 20, 400)) == Text{"fast 0-30"});
  CHECK(text(holes.plan(PolicyName::Mctb, 20, 400, {.shorten_last = false})) == Text{"fast 0-60"});
}

TEST_CASE("a job that fits on no class has no plan") {
  Example e;
  e.w.jobs.push_back({.nodes = 9});
  e.w.run.insert(e.w.run.end(), {1, 1});
  CHECK(Policy(PolicyName::Mctbm, {}).plan(e.w, 0, 0, e.cluster).empty());
}

TEST_CASE("policies have the names of the paper") {
  for (PolicyName p :
       {PolicyName::Mct, PolicyName::Mctb, PolicyName::Mctm, PolicyName::Mctbm, PolicyName::Wmct})
    CHECK(policy_named(name_of(p)) == p);
  CHECK(policy_named("mctbm") == PolicyName::Mctbm);
  CHECK_FALSE(policy_named("MC"));
}
