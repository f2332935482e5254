// SPDX-License-Identifier: Apache-2.0
//
// steer() stops planning where no later job can begin now, and looks at few of the nodes that are
// shared. Its decisions are those of a plan for all jobs and of a look at all nodes, on random
// clusters.
#include <doctest/doctest.h>

#include <time.h>

#include <algorithm>
#include <random>

#include "schedule/steer/steer.h"

using namespace ckpt;
using namespace ckpt::schedule;

namespace {

constexpr Ticks kRoundTime = 1'000'000 * kTicksPerSecond;

struct RandomCluster {
  explicit RandomCluster(u32 seed, unsigned more_sharing = 0)
      : chance(seed), sharing(more_sharing) {
    const unsigned kinds = 1 + number(4);
    for (unsigned c = 0; c < kinds; c++) {
      classes.push_back({"c", 0, {{0.01, 1.0 + c}, {0.01, 1}}});
      options.shared.push_back(number(3) ? std::optional(Bandwidths{}) : std::nullopt);
    }
    for (unsigned i = number(30) + 1; i > 0; i--) add_node();
    in_use = number(static_cast<unsigned>(nodes.size()) + 1);
    for (unsigned i = number(80); i > 0; i--) add_job();
    options.policy = static_cast<PolicyName>(number(5));
    options.of.charge = static_cast<Charge>(number(2));
    options.of.regions = static_cast<Regions>(number(3));
  }

  unsigned number(unsigned n) { return static_cast<unsigned>(chance() % n); }

  void add_node() {
    const ClassIndex on = number(static_cast<unsigned>(classes.size()));
    classes[on].nodes++;
    nodes.push_back({"n" + std::to_string(nodes.size()),
                     on,
                     number(10) ? 0 : kRoundTime + (number(2000) - 100) * kTicksPerSecond,
                     {4u << number(3), number(3), 4000}});
  }

  void add_job() {
    LiveJob j;
    j.id = jobs.size() + 1;
    j.job = {.submit = number(40),
             .nodes = number(3 + sharing) ? 1 : 1 + number(6),
             .megabytes = static_cast<float>(number(3000))};
    for (const ResourceClass &c : classes)
      j.run.push_back(number(4) ? (10 + number(4000)) * c.costs.checkpoint.base * 1000 : 0);
    if (!number(3)) j.done = number(100) / 100.0;
    if (j.job.nodes == 1 && number(2 + sharing))
      j.sharing = SharingJob{{.memory_gb = number(9000) / 10.0},
                             {1 + number(6), number(2), static_cast<double>(number(3000))}};
    if (j.sharing && sharing && !number(4)) j.sharing->task.host_to_device_gb = number(5000) / 10.0;
    if (next < in_use && number(3)) run(j);
    jobs.push_back(std::move(j));
  }

  void run(LiveJob &j) {
    LiveRun r{.on = nodes[next].on, .since = kRoundTime - number(3000) * kTicksPerSecond};
    for (unsigned i = 0; i < j.job.nodes && next < nodes.size(); i++) {
      r.nodes.push_back(nodes[next].name);
      if (!j.sharing || number(2)) next++;
    }
    if (!number(4)) r.until = kRoundTime + (number(2000) - 500) * kTicksPerSecond;
    r.leaving = !number(20);
    if (j.run[r.on] == 0) j.run[r.on] = 1000 * kTicksPerSecond;
    j.running = std::move(r);
  }

  // As text, to be compared and shown.
  std::string decisions(bool plan_all) {
    options.plan_all = plan_all;
    const Decisions d = steer(kRoundTime, classes, nodes, jobs, options);
    std::string text;
    for (const Start &s : d.starts) {
      text += "start " + std::to_string(s.id) + " until " + std::to_string(s.until.value_or(0));
      for (const std::string &n : s.nodes) text += " " + n;
      text += "\n";
    }
    for (const Move &m : d.moves)
      text += "move " + std::to_string(m.id) + " " + std::to_string(m.done) + "\n";
    for (const Extend &e : d.extensions)
      text += "extend " + std::to_string(e.id) + " " + std::to_string(e.until.value_or(0)) + "\n";
    for (const Progress &p : d.progress)
      text += "slow " + std::to_string(p.id) + " " + std::to_string(p.slowdown) + "\n";
    return text;
  }

  std::mt19937 chance;
  const unsigned sharing;  // 0: a third of the jobs; more: most of them, and some copy
  std::vector<ResourceClass> classes;
  std::vector<LiveNode> nodes;
  std::vector<LiveJob> jobs;
  SteerOptions options;
  size_t in_use = 0;  // by jobs that run
  size_t next = 0;    // the first node without a job
};

double processor_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void check_shortcuts(unsigned more_sharing) {
  size_t decided = 0;
  for (u32 seed = 0; seed < 1000; seed++) {
    INFO("seed ", seed);
    RandomCluster cluster(seed, more_sharing);
    const std::string all = cluster.decisions(true);
    REQUIRE(cluster.decisions(false) == all);
    decided += static_cast<size_t>(std::ranges::count(all, '\n'));
  }
  CHECK(decided > 1000);
}

}  // namespace

TEST_CASE("what is left out of planning decides nothing") { check_shortcuts(0); }

TEST_CASE("nodes that are left out of a search are not those where a job ends first") {
  check_shortcuts(6);
}

TEST_CASE("a long queue of a full cluster is not planned") {
  constexpr unsigned kNodes = 1000, kJobs = 20'000;
  std::vector<LiveNode> nodes;
  for (unsigned i = 0; i < kNodes; i++)
    nodes.push_back({"n" + std::to_string(i), 0, kRoundTime + (i + 1) * kTicksPerSecond});
  std::vector<LiveJob> jobs;
  for (u64 id = 1; id <= kJobs; id++)
    jobs.push_back({id, {.submit = static_cast<Ticks>(id), .nodes = 1}, {3600 * kTicksPerSecond}});
  // Processor time, so that other load on the machine does not count.
  auto seconds = [&](bool plan_all) {
    const double begin = processor_seconds();
    CHECK(
        steer(kRoundTime, {{"c", kNodes, {}}}, nodes, jobs, {.plan_all = plan_all}).starts.empty());
    return processor_seconds() - begin;
  };
  CHECK(seconds(false) * 2 < seconds(true));
}

// All nodes are shared and have room, and a job waits that needs all of them. The others run for
// too long to begin before it, except the last one, so all are planned.
TEST_CASE("few nodes that are shared are looked at for each job") {
  constexpr unsigned kNodes = 100, kJobs = 150;
  const Resources core{1, 0, 100};
  std::vector<LiveNode> nodes;
  std::vector<LiveJob> jobs;
  auto add_job = [&](Ticks seconds, unsigned on_nodes) -> LiveJob & {
    const u64 id = jobs.size() + 1;
    jobs.push_back(
        {id, {.submit = static_cast<Ticks>(id), .nodes = on_nodes}, {seconds * kTicksPerSecond}});
    if (on_nodes == 1) jobs.back().sharing = SharingJob{{.memory_gb = 100}, core};
    return jobs.back();
  };
  for (unsigned i = 0; i < kNodes; i++) {
    nodes.push_back({"n" + std::to_string(i), 0, 0, {16, 0, 4000}});
    add_job(1000 + i, 1).running = {.on = 0, .since = kRoundTime, .nodes = {nodes.back().name}};
  }
  add_job(1000, kNodes);
  for (unsigned i = 0; i < kJobs; i++) add_job(5000, 1);
  add_job(100, 1);
  auto seconds = [&](bool plan_all) {
    const SteerOptions options{
        .policy = PolicyName::Mct, .of = {}, .shared = {Bandwidths{}}, .plan_all = plan_all};
    const double begin = processor_seconds();
    CHECK(steer(kRoundTime, {{"c", kNodes, {}}}, nodes, jobs, options).starts.size() == 1);
    return processor_seconds() - begin;
  };
  CHECK(seconds(false) * 5 < seconds(true));
}
