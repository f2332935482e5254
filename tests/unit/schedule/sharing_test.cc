// SPDX-License-Identifier: Apache-2.0
//
// Jobs that share nodes: their slowdown, and what steer() decides for them. The bandwidths are such
// that figures can be checked by hand: a core gets 10 GB/s alone, and all cores together 10, so two
// jobs that only use the memory take twice as long side by side.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "schedule/contention/sharers.h"
#include "schedule/contention/slowdown.h"
#include "schedule/steer/steer.h"

using namespace ckpt;
using namespace ckpt::schedule;

namespace {

constexpr Ticks kPresent = 1'000 * kTicksPerSecond;
const Bandwidths kNode = {.core = 10, .cpu = 10, .memory = 20, .link = 10, .copy = 5};

// 100 s alone, of which `memory` are in the stage Memory.
Sharer sharer(double memory, unsigned cores = 1, bool running = true) {
  ContentionTask task{.seconds = 100, .memory_gb = memory * 10};
  return {shares_of_core(task, cores, kNode), {.cores = cores}, 100, running};
}

struct SharedScene {
  std::vector<ResourceClass> classes = {{"c", 2, {{0, 5}, {0, 5}}}};
  std::vector<LiveNode> nodes = {{"n1", 0, 0, {2, 1, 1000}}, {"n2", 0, 0, {2, 1, 1000}}};
  std::vector<LiveJob> jobs;
  SteerOptions options{.policy = PolicyName::Wmct, .of = {}, .shared = {kNode}};

  LiveJob &whole(u64 id, Ticks seconds, unsigned n = 1) {
    LiveJob j;
    j.id = id;
    j.job = {.submit = static_cast<Ticks>(id), .nodes = n};
    j.run.assign(classes.size(), seconds * kTicksPerSecond);
    jobs.push_back(j);
    return jobs.back();
  }
  // `memory` of its seconds are in the stage Memory.
  LiveJob &sharing(u64 id, Ticks seconds, double memory, Resources needs = {}) {
    LiveJob &j = whole(id, seconds);
    j.sharing = SharingJob{{.memory_gb = memory * 10}, needs};
    return j;
  }
  LiveJob &running(LiveJob &j, const std::string &node, Ticks since) {
    j.running = {.on = 0, .since = kPresent - since * kTicksPerSecond, .nodes = {node}};
    return j;
  }
  Decisions decide() { return steer(kPresent, classes, nodes, jobs, options); }
};

// "1 n1, 2 n2"
std::string starts(const Decisions &d) {
  std::string text;
  for (const Start &s : d.starts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", s.id, fmt::join(s.nodes, "+"));
  return text;
}

}  // namespace

TEST_CASE("jobs that share a node slow each other down until one of them ends") {
  std::vector<Sharer> jobs = {sharer(100), sharer(100)};
  jobs[1].seconds = 50;
  CHECK(slowdown_beside(jobs, 0, kNode) == doctest::Approx(2));
  std::vector<Span> spans = share_node(jobs, {.cores = 2}, kNode);
  CHECK(spans[1].end == doctest::Approx(100));
  CHECK(spans[0].end == doctest::Approx(150));
  // A job that only computes disturbs none.
  jobs[1] = sharer(0);
  spans = share_node(jobs, {.cores = 2}, kNode);
  CHECK(spans[0].end == doctest::Approx(100));
  CHECK(spans[1].end == doctest::Approx(100));
}

TEST_CASE("a job starts on a shared node when it has room, and not before the one ahead of it") {
  std::vector<Sharer> jobs = {sharer(0), sharer(0, 2, false), sharer(0, 1, false)};
  std::vector<Span> spans = share_node(jobs, {.cores = 2}, kNode);
  CHECK(spans[1].start == doctest::Approx(100));
  CHECK(spans[2].start == doctest::Approx(200));
  jobs[1].needs.cores = 3;
  CHECK(std::isinf(share_node(jobs, {.cores = 2}, kNode)[2].end));
}

TEST_CASE("what a job's own cores cost each other is part of its run time alone") {
  std::vector<Sharer> jobs = {sharer(100, 2)};
  CHECK(slowdown_beside(jobs, 0, kNode) == doctest::Approx(1));
  // Three cores share what two had.
  jobs.push_back(sharer(100));
  CHECK(slowdown_beside(jobs, 0, kNode) == doctest::Approx(1.5));
  CHECK(slowdown_beside(jobs, 1, kNode) == doctest::Approx(3));
}

TEST_CASE("two jobs that need the memory get different nodes, and one that computes joins one") {
  SharedScene s;
  s.sharing(1, 100, 90);
  s.sharing(2, 100, 0);
  s.sharing(3, 100, 90);
  CHECK(starts(s.decide()) == "1 n1, 2 n1, 3 n2");
}

TEST_CASE("a job waits for an empty node where it ends earlier there than beside others now") {
  SharedScene s;
  s.running(s.sharing(1, 100, 100), "n1", 0);
  s.running(s.sharing(2, 100, 100), "n2", 90);
  // Beside 1: twice as long. Beside 2: 20 s for its first half.
  s.sharing(3, 1000, 1000);
  CHECK(starts(s.decide()) == "3 n2");
  s.jobs.pop_back();
  s.sharing(3, 100, 100, {.cores = 2});
  CHECK(starts(s.decide()) == "");
}

TEST_CASE("cores, GPUs and memory of a node are given once") {
  for (Resources needs : {Resources{.cores = 2}, Resources{.cores = 1, .gpus = 1},
                          Resources{.cores = 1, .gpus = 0, .megabytes = 600}}) {
    SharedScene s;
    for (u64 id = 1; id <= 3; id++) s.sharing(id, 100, 0, needs);
    CHECK(starts(s.decide()) == "1 n1, 2 n2");
  }
}

TEST_CASE("a job without figures, and one on nodes that are not shared, has a whole node") {
  SharedScene s;
  s.whole(1, 100);
  s.sharing(2, 100, 0);
  s.sharing(3, 100, 0);
  CHECK(starts(s.decide()) == "1 n1, 2 n2, 3 n2");
  s.options.shared.clear();
  CHECK(starts(s.decide()) == "1 n1, 2 n2");
  s.options.shared = {kNode};
  s.nodes[1].busy_until = kPresent + 50 * kTicksPerSecond;
  CHECK(starts(s.decide()) == "1 n1");
}

TEST_CASE("no job joins a node that a job without figures has, also if both run there already") {
  SharedScene s;
  s.running(s.whole(1, 100), "n1", 0);
  s.running(s.sharing(2, 100, 0), "n1", 0);
  s.sharing(3, 100, 0, {.cores = 1});
  s.sharing(4, 100, 0, {.cores = 2});
  CHECK(starts(s.decide()) == "3 n2");
  s.nodes[1].busy_until = kPresent + 1'000 * kTicksPerSecond;
  CHECK(starts(s.decide()) == "");
}

TEST_CASE("no job joins a shared node if a job before it would then wait for the node") {
  SharedScene s;
  s.running(s.sharing(1, 100, 0), "n1", 0);
  s.running(s.sharing(2, 100, 0), "n2", 0);
  s.whole(3, 100, 2);
  s.sharing(4, 100, 0);
  CHECK(starts(s.decide()) == "4 n1");
  s.jobs.back().run = {101 * kTicksPerSecond};
  CHECK(starts(s.decide()) == "");
}

TEST_CASE("progress is counted with the slowdown") {
  SharedScene s;
  s.options.policy = PolicyName::Mct;  // which moves none
  s.running(s.sharing(1, 100, 100), "n1", 50);
  CHECK(s.decide().progress.empty());
  // Nothing was noted, so they were together since their begin.
  s.running(s.sharing(2, 100, 100), "n1", 50);
  Decisions d = s.decide();
  REQUIRE(d.progress.size() == 2);
  CHECK(d.progress[0].done == doctest::Approx(0.25));
  CHECK(d.progress[0].slowdown == doctest::Approx(2));
  CHECK(d.progress[0].since == kPresent);
  // It was slowed down to a quarter, and now no longer.
  s.jobs.pop_back();
  s.jobs[0].done = 0.5;
  s.jobs[0].running->slowdown = 4;
  d = s.decide();
  REQUIRE(d.progress.size() == 1);
  CHECK(d.progress[0].done == doctest::Approx(0.625));
  CHECK(d.progress[0].slowdown == doctest::Approx(1));
}

TEST_CASE("the restore of a job is no progress") {
  SharedScene s;
  s.options.policy = PolicyName::Mct;
  s.running(s.sharing(1, 100, 100), "n1", 2).done = 0.5;
  s.running(s.sharing(2, 100, 100), "n1", 2);
  Decisions d = s.decide();
  REQUIRE(d.progress.size() == 2);
  CHECK(d.progress[0].done == doctest::Approx(0.5));
  CHECK(d.progress[0].since == kPresent + 3 * kTicksPerSecond);
}

TEST_CASE("a job that is slowed down is moved to an empty node, one of two") {
  SharedScene s;
  s.running(s.sharing(1, 100, 100), "n1", 0);
  s.running(s.sharing(2, 100, 100), "n1", 0);
  // The other one is then alone, whatever else is empty.
  s.classes[0].nodes = 3;
  s.nodes.push_back({"n3", 0, 0, {2, 1, 1000}});
  Decisions d = s.decide();
  REQUIRE(d.moves.size() == 1);
  CHECK(d.moves[0].id == 1);
  s.options.policy = PolicyName::Mctb;
  CHECK(s.decide().moves.empty());
  s.options.policy = PolicyName::Wmct;
  s.options.requeue_delay = 200 * kTicksPerSecond;
  CHECK(s.decide().moves.empty());
}

namespace {

// A cluster of random nodes and jobs, on which steer() decides every five seconds.
class Run {
 public:
  explicit Run(u32 seed) : chance_(seed) {
    scene_.classes[0].nodes = 3;
    scene_.options.policy = static_cast<PolicyName>(any(5));
    scene_.nodes.clear();
    for (int i = 1; i <= 3; i++)
      scene_.nodes.push_back({fmt::format("n{}", i), 0, 0, {2 + any(7), any(3), 4000}});
    for (u64 id = 1; id <= 12; id++) add_job(id);
  }

  void check_decisions_of_earlier_jobs() {
    std::string all = starts(scene_.decide());
    SharedScene first = scene_;
    while (!first.jobs.empty()) {
      first.jobs.pop_back();
      REQUIRE(all.starts_with(starts(first.decide())));
    }
  }

  void run_to_the_end() {
    for (int round = 0; !scene_.jobs.empty(); round++) {
      REQUIRE(round < 10'000);
      Decisions d = steer(now_, scene_.classes, scene_.nodes, scene_.jobs, scene_.options);
      for (const Move &m : d.moves) leave(m);
      for (const Progress &p : d.progress) note(p);
      for (const Start &s : d.starts) start(s);
      check_nodes();
      advance(5);
    }
  }

 private:
  unsigned any(unsigned below) { return static_cast<unsigned>(chance_() % below); }

  void add_job(u64 id) {
    const Ticks seconds = 1 + any(300);
    if (any(4) == 0) {
      scene_.whole(id, seconds, 1 + any(3));
      return;
    }
    LiveJob &j = scene_.sharing(id, seconds,
                                static_cast<double>(any(100)) / 100 * static_cast<double>(seconds));
    j.sharing->needs = {1 + any(2), 0, static_cast<double>(any(2000))};
    if (any(4) == 0 && scene_.nodes[0].has.gpus > 0) {
      j.sharing->needs.gpus = 1;
      j.sharing->task.host_to_device_gb = static_cast<double>(seconds);
    }
  }

  LiveJob &job(u64 id) {
    return *std::find_if(scene_.jobs.begin(), scene_.jobs.end(),
                         [&](const LiveJob &j) { return j.id == id; });
  }

  void start(const Start &s) {
    LiveJob &j = job(s.id);
    REQUIRE_FALSE(j.running);
    REQUIRE(s.nodes.size() == j.job.nodes);
    j.running = {.on = s.on, .since = now_, .until = s.until, .nodes = s.nodes};
  }

  // Checkpoints and restores take no time here.
  void leave(const Move &m) {
    job(m.id).done = m.done;
    job(m.id).running.reset();
  }

  void note(const Progress &p) {
    LiveJob &j = job(p.id);
    j.done = p.done;
    j.running->since = p.since;
    j.running->slowdown = p.slowdown;
  }

  std::vector<Sharer> sharers_on(const std::string &node) {
    std::vector<Sharer> all;
    for (LiveJob &j : scene_.jobs)
      if (j.running && j.sharing && j.running->nodes[0] == node) {
        ContentionTask t = j.sharing->task;
        t.seconds = seconds_of(j.run[0]);
        all.push_back({shares_of_core(t, j.sharing->needs.cores, kNode), j.sharing->needs});
      }
    return all;
  }

  void check_nodes() {
    for (const LiveNode &n : scene_.nodes) {
      Resources used{0, 0, 0};
      size_t whole = 0;
      for (const LiveJob &j : scene_.jobs)
        for (const std::string &on : j.running ? j.running->nodes : std::vector<std::string>())
          whole += on == n.name && !j.sharing;
      std::vector<Sharer> sharers = sharers_on(n.name);
      for (const Sharer &s : sharers) {
        used.cores += s.needs.cores;
        used.gpus += s.needs.gpus;
        used.megabytes += s.needs.megabytes;
      }
      REQUIRE(used.fits_in(n.has));
      REQUIRE((whole == 0 || (whole == 1 && sharers.empty())));
    }
  }

  // What really happens: each running job does what its neighbours leave it.
  void advance(Ticks seconds) {
    std::map<u64, double> pace;
    for (const LiveNode &n : scene_.nodes) {
      std::vector<Sharer> sharers = sharers_on(n.name);
      size_t i = 0;
      for (LiveJob &j : scene_.jobs)
        if (j.running && j.sharing && j.running->nodes[0] == n.name)
          pace[j.id] = slowdown_beside(sharers, i++, kNode);
    }
    for (LiveJob &j : scene_.jobs)
      if (j.running)
        real_[j.id] += static_cast<double>(seconds) / (pace.contains(j.id) ? pace[j.id] : 1) /
                       seconds_of(j.run[0]);
    std::erase_if(scene_.jobs, [&](const LiveJob &j) { return real_[j.id] >= 1; });
    now_ += seconds * kTicksPerSecond;
  }

  std::mt19937 chance_;
  SharedScene scene_;
  Ticks now_ = kPresent;
  std::map<u64, double> real_;  // the share of each job that is done
};

}  // namespace

TEST_CASE("random jobs that share: none is lost, no node is over-booked") {
  for (u32 seed = 1; seed <= 150; seed++) {
    CAPTURE(seed);
    Run(seed).run_to_the_end();
  }
}

TEST_CASE("random jobs that share: what is decided for a job does not depend on later ones") {
  for (u32 seed = 1; seed <= 150; seed++) {
    CAPTURE(seed);
    Run(seed).check_decisions_of_earlier_jobs();
  }
}

TEST_CASE("a job that runs longer than estimated is not moved to another empty node") {
  SharedScene s;
  s.running(s.sharing(1, 100, 50), "n1", 600);
  CHECK(s.decide().moves.empty());
}
