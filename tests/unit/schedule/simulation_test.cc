// SPDX-License-Identifier: Apache-2.0
//
// Whole simulations. random_history_test.cc checks that no job is lost and no node used twice.
#include "tests/unit/schedule/outcome.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

using namespace ckpt::schedule;

namespace {

constexpr PolicyName kAll[] = {PolicyName::Mct, PolicyName::Mctb, PolicyName::Mctm,
                               PolicyName::Mctbm, PolicyName::Wmct};

}  // namespace

TEST_CASE("MCT starts the jobs of a class in the order of their submission") {
  std::mt19937 chance(12);
  for (int i = 0; i < 50; i++) {
    Workload w = random_workload(chance);
    ckpt::Result<Outcome> o = simulate(w, classes(16, 16, 25), PolicyName::Mct, {});
    REQUIRE(o);
    Ticks last[2] = {0, 0};
    for (const RanPiece &r : o->pieces) {
      REQUIRE(r.piece.begin >= last[r.piece.on]);
      last[r.piece.on] = r.piece.begin;
    }
  }
}

TEST_CASE("wait A is the time for which enough nodes of a class were idle") {
  std::mt19937 chance(13);
  for (int i = 0; i < 20; i++) {
    Workload w = random_workload(chance);
    std::vector<ResourceClass> of = classes(16, 16, 25);
    ckpt::Result<Outcome> o = simulate(w, of, PolicyName::Mct, {});
    REQUIRE(o);
    std::map<Ticks, int> use[2] = {use_of(w, *o, 0), use_of(w, *o, 1)};
    auto used = [&](ClassIndex c, Ticks t) {
      auto after = use[c].upper_bound(t);
      return after == use[c].begin() ? 0 : std::prev(after)->second;
    };
    for (size_t j = 0; j < w.jobs.size(); j++) {
      // All times at which the use changes while the job waits.
      std::vector<Ticks> times = {w.jobs[j].submit, o->jobs[j].start};
      for (const auto &u : use)
        for (auto [t, n] : u)
          if (t > times[0] && t < times[1]) times.push_back(t);
      std::sort(times.begin(), times.end());
      Ticks wait_a = 0;
      for (size_t k = 0; k + 1 < times.size(); k++) {
        int n = static_cast<int>(w.jobs[j].nodes);
        if (used(0, times[k]) + n <= 16 || used(1, times[k]) + n <= 16)
          wait_a += times[k + 1] - times[k];
      }
      REQUIRE(o->jobs[j].wait_a == wait_a);
    }
  }
}

TEST_CASE("what an overestimated cost has reserved is given back when the job ends") {
  // Job 2 moves once, and is planned to end 8 s too late.
  Workload w{1,
             {{.submit = 0, .nodes = 4},
              {.submit = 1000, .nodes = 8},
              {.submit = 1000, .nodes = 4},
              {.submit = 154'000, .nodes = 8}},
             {50'000, 50'000, 100'000, 10'000}};
  std::vector<ResourceClass> of = {{"only", 8, {{0, 1}, {0, 1}}}};
  ckpt::Result<Outcome> o =
      simulate(w, of, PolicyName::Mctb, {.charge = Charge::Exact, .overestimate = 5});
  REQUIRE(o);
  // Job 2 runs from 1 s to 49 s real (planned to leave 5 s before 50 s), and again from 100 s.
  CHECK(o->jobs[2].migration == 2000);
  CHECK(o->jobs[2].moves == 1);
  CHECK(o->jobs[2].end == 100'000 + 1000 + (100'000 - 48'000));
  CHECK(o->jobs[3].start == 154'000);
}

TEST_CASE("jobs that fit on no class are counted") {
  Workload w{1, {{.nodes = 9}, {.nodes = 1}}, {1000, 1000}};
  ckpt::Result<Outcome> o = simulate(w, {{"only", 8, {}}}, PolicyName::Mct, {});
  REQUIRE(o);
  CHECK(o->impossible == 1);
  CHECK(o->jobs[1].end == 1000);
}

TEST_CASE("jobs that take longer than the clock counts are refused") {
  auto refused = [](double seconds, double megabytes, double submit) {
    Workload w{1, {{ticks_of(submit), 1, static_cast<float>(megabytes), 0}}, {ticks_of(seconds)}};
    std::vector<ResourceClass> of = {{"n", 4, {{1e3, 0}, {1e3, 0}}}};
    ckpt::Result<Outcome> o = simulate(w, of, PolicyName::Wmct, {});
    return !o && o.error().what.starts_with("job 1: ");
  };
  CHECK_FALSE(refused(1e10, 1, 1e10));
  CHECK(refused(1e15, 1e12, 0));
  CHECK(refused(1e300, 1, 0));
  CHECK(refused(1, 1, 1e300));
}

TEST_CASE("policies on large jobs: both kinds of backfill pay, and WMCT more") {
  SyntheticOptions options{.jobs = 3000,
                           .load_of = LoadOf::Fastest,
                           .min_nodes = 64,
                           .max_nodes = 512,
                           .mix = Mix::Equal};
  Workload w = synthetic_workload(options, 512, 512);
  std::map<PolicyName, double> mean;
  for (PolicyName p : kAll) {
    ckpt::Result<Outcome> o = simulate(w, classes(512, 512, 25), p, {});
    REQUIRE(o);
    for (size_t i = 0; i < w.jobs.size(); i++)
      mean[p] += static_cast<double>(o->jobs[i].turnaround(w.jobs[i]));
  }
  CHECK(mean[PolicyName::Mctb] < 0.9 * mean[PolicyName::Mct]);
  CHECK(mean[PolicyName::Mctbm] < 0.9 * mean[PolicyName::Mct]);
  CHECK(mean[PolicyName::Wmct] < mean[PolicyName::Mctbm]);
}

namespace {

// Of all times of an outcome, so that a difference of a millisecond shows.
ckpt::u64 fingerprint(const Outcome &o) {
  ckpt::u64 sum = 14695981039346656037u;
  auto add = [&](Ticks t) { sum = (sum ^ static_cast<ckpt::u64>(t)) * 1099511628211u; };
  for (const JobResult &r : o.jobs)
    for (Ticks t : {r.start, r.end, r.migration, r.wait_a, r.wait_b}) add(t);
  for (const RanPiece &r : o.pieces) add(r.piece.begin);
  return sum;
}

}  // namespace

// The values are those of a calendar that was a list of steps, and of a planner that stepped
// through all idle intervals: what makes both faster must change no plan.
TEST_CASE("the plans of an overloaded cluster, to the millisecond") {
  const Workload w = synthetic_workload({.jobs = 12'000, .seed = 3, .load = 1.2}, 512, 512);
  for (auto [policy, value] : {std::pair{PolicyName::Mct, ckpt::u64{3284042574979259296u}},
                               {PolicyName::Mctb, 10474447535847068283u},
                               {PolicyName::Mctm, 1790581610187121732u},
                               {PolicyName::Mctbm, 16347509594632880245u},
                               {PolicyName::Wmct, 16028874194114251591u}}) {
    ckpt::Result<Outcome> o = simulate(w, classes(512, 512, 25), policy, {});
    REQUIRE(o);
    CHECK(fingerprint(*o) == value);
  }
}
