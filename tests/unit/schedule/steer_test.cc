// SPDX-License-Identifier: Apache-2.0
//
// Decisions on clusters that can be checked by hand. Class 0 is fast, class 1 slow; a checkpoint
// and a restore take 5 s each.
#include "schedule/steer/steer.h"

#include <doctest/doctest.h>

using namespace ckpt::schedule;

namespace {

constexpr Ticks kNow = 1'000 * kTicksPerSecond;

struct Scene {
  std::vector<ResourceClass> classes = {{"fast", 2, {{0, 5}, {0, 5}}},
                                        {"slow", 2, {{0, 5}, {0, 5}}}};
  std::vector<LiveNode> nodes = {{"f1", 0}, {"f2", 0}, {"s1", 1}, {"s2", 1}};
  std::vector<LiveJob> jobs;
  SteerOptions options;

  LiveJob &job(ckpt::u64 id, Ticks fast, Ticks slow, unsigned n = 1) {
    jobs.push_back({id,
                    {.submit = static_cast<Ticks>(id), .nodes = n},
                    {fast * kTicksPerSecond, slow * kTicksPerSecond}});
    return jobs.back();
  }
  Decisions decide() { return steer(kNow, classes, nodes, jobs, options); }
  void busy(size_t node, Ticks seconds) {
    nodes[node].busy_until = kNow + seconds * kTicksPerSecond;
  }
};

}  // namespace

TEST_CASE("a waiting job starts on the nodes where it ends first") {
  Scene s;
  s.job(1, 10, 50);
  s.job(2, 10, 50, 2);
  s.job(3, 10, 11);
  Decisions d = s.decide();
  // f2 is free, but job 2 needs both.
  REQUIRE(d.starts.size() == 2);
  CHECK(d.starts[0].id == 1);
  CHECK(d.starts[0].nodes == std::vector<std::string>{"f1"});
  CHECK(d.starts[1].id == 3);
  CHECK(d.moves.empty());
}

TEST_CASE("a job starts on slow nodes until fast ones are free, and is told when it leaves") {
  Scene s;
  s.busy(0, 100);
  s.busy(1, 100);
  s.job(1, 100, 300);
  Decisions d = s.decide();
  REQUIRE(d.starts.size() == 1);
  CHECK(d.starts[0].nodes == std::vector<std::string>{"s1"});
  REQUIRE(d.starts[0].until);
  CHECK(*d.starts[0].until == kNow + 95 * kTicksPerSecond);
  s.options.policy = PolicyName::Mct;
  CHECK(s.decide().starts.empty());
}

TEST_CASE("a running job is moved when it has to leave, and stays if nothing is better") {
  Scene s;
  s.job(1, 100, 400).running = {
      .on = 1, .since = kNow - 100 * kTicksPerSecond, .until = kNow, .nodes = {"s1"}};
  Decisions d = s.decide();
  REQUIRE(d.moves.size() == 1);
  CHECK(d.moves[0].done == doctest::Approx(0.25));
  CHECK(d.moves[0].checkpoint_seconds == doctest::Approx(5));
  s.busy(0, 10'000);
  s.busy(1, 10'000);
  d = s.decide();
  CHECK(d.moves.empty());
  REQUIRE(d.extensions.size() == 1);
  CHECK_FALSE(d.extensions[0].until);
}

TEST_CASE("a job stays when it has to leave and no class has enough nodes any more") {
  Scene s;
  s.nodes = {{"f2", 0}, {"s2", 1}};
  s.classes[0].nodes = s.classes[1].nodes = 1;
  s.job(1, 100, 400, 2).running = {
      .on = 1, .since = kNow - 100 * kTicksPerSecond, .until = kNow, .nodes = {"s1", "s2"}};
  s.job(2, 1'000, 10);
  Decisions d = s.decide();
  CHECK(d.moves.empty());
  REQUIRE(d.extensions.size() == 1);
  CHECK_FALSE(d.extensions[0].until);
  for (const Start &start : d.starts) CHECK(start.nodes != std::vector<std::string>{"s2"});
}

TEST_CASE("a running job is moved as soon as faster nodes are free for which no job waits") {
  Scene s;
  s.job(1, 100, 400).running = {.on = 1, .since = kNow - 100 * kTicksPerSecond, .nodes = {"s1"}};
  REQUIRE(s.decide().moves.size() == 1);
  s.options.policy = PolicyName::Mct;
  CHECK(s.decide().moves.empty());
  s.options.policy = PolicyName::Mctbm;
  // The rest takes 300 s there, and 75 s here with a move of 230 s.
  s.options.requeue_delay = 220 * kTicksPerSecond;
  CHECK(s.decide().moves.size() == 0);
  s.options.requeue_delay = 0;
  s.job(2, 50, 1000, 2);
  Decisions d = s.decide();
  CHECK(d.moves.empty());
  CHECK(d.starts.size() == 1);
}

TEST_CASE("what was done before a move counts") {
  Scene s;
  s.busy(0, 40);
  s.busy(1, 40);
  s.job(1, 100, 100).done = 0.9;
  Decisions d = s.decide();
  REQUIRE(d.starts.size() == 1);
  CHECK(d.starts[0].nodes == std::vector<std::string>{"s1"});
  CHECK_FALSE(d.starts[0].until);
}

TEST_CASE("a job that was told to leave is not told again, and its nodes become free") {
  Scene s;
  s.job(1, 100, 400).running = {
      .on = 1, .since = 0, .until = kNow - 1, .nodes = {"s1", "unknown"}, .leaving = true};
  Decisions d = s.decide();
  CHECK(d.moves.empty());
  CHECK(d.extensions.empty());
}

TEST_CASE("jobs that run longer than estimated are no obstacle to planning") {
  Scene s;
  s.busy(0, -50);
  s.job(1, 10, 20).running = {.on = 0, .since = 0, .nodes = {"f2"}};
  // Both fast nodes may be in use for long, so it does not wait for them.
  s.job(2, 10, 30);
  REQUIRE(s.decide().starts.size() == 1);
  CHECK(s.decide().starts[0].nodes == std::vector<std::string>{"s1"});
}

TEST_CASE("a job that runs longer than estimated is moved to faster nodes, and never back") {
  Scene s;
  s.job(1, 50, 500).running = {.on = 1, .since = kNow - 600 * kTicksPerSecond, .nodes = {"s1"}};
  Decisions d = s.decide();
  REQUIRE(d.moves.size() == 1);
  s.jobs[0].done = d.moves[0].done;
  s.jobs[0].running->on = 0;
  s.jobs[0].running->nodes = {"f1"};
  for (Ticks seconds : {0, 10, 600}) {
    s.jobs[0].running->since = kNow - seconds * kTicksPerSecond;
    CHECK(s.decide().moves.empty());
  }
}
