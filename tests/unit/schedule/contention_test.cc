// SPDX-License-Identifier: Apache-2.0
//
// The contention model against the worked example and the tasks of HC sections 4.4 to 4.7.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "schedule/contention/ect.h"
#include "schedule/contention/paper_tasks.h"
#include "schedule/contention/slowdown.h"
#include "schedule/simulate/task_set.h"

using namespace ckpt::schedule;

namespace {

const Bandwidths kPaper;  // Phenom X4 9850 with GeForce 8800 GTS 512

const ContentionTask &kCg = paper_task("CG"), &kEp = paper_task("EP"),
                     &kHotspot = paper_task("Hotspot"), &kKmeans = paper_task("Kmeans"),
                     &kCbmat = paper_task("cbmat"), &kSrad = paper_task("SRAD");

double beside_three(const ContentionTask &task, const ContentionTask &neighbour) {
  std::vector<StageShares> neighbours(3, shares_of(neighbour, kPaper));
  return slowdown(shares_of(task, kPaper), neighbours, kPaper);
}

// The sum over all combinations of stages, as HC section 4.5 prints it.
double printed_sum(const StageShares &task, const std::vector<StageShares> &neighbours) {
  double sum = 0;
  size_t combinations = 1;
  for (size_t i = 0; i < neighbours.size(); i++) combinations *= kStages;
  for (size_t own = 0; own < kStages; own++)
    for (size_t i = 0; i < combinations; i++) {
      double p = task.of[own];
      StageCounts counts;
      size_t rest = i;
      for (const StageShares &n : neighbours) {
        size_t stage = rest % kStages;
        rest /= kStages;
        p *= n.of[stage];
        counts.memory += stage == 0;
        counts.host_to_device += stage == 1;
        counts.device_to_host += stage == 2;
      }
      sum += p * stage_slowdown(static_cast<Stage>(own), counts, kPaper);
    }
  return sum;
}

StageShares random_shares(std::mt19937 &chance) {
  std::uniform_real_distribution<double> any(0, 1);
  StageShares s;
  for (double &share : s.of) share = any(chance);
  double sum = std::accumulate(s.of.begin(), s.of.end(), 0.0);
  for (double &share : s.of) share /= sum;
  return s;
}

}  // namespace

TEST_CASE("the worked example: a Memory stage beside two copies and another Memory stage") {
  CHECK(stage_slowdown(Stage::Memory, {1, 1, 1}, kPaper) == doctest::Approx(2.667).epsilon(0.001));
}

TEST_CASE("a stage without neighbours is not slowed down, nor one that uses no link") {
  for (Stage s : {Stage::Memory, Stage::HostToDevice, Stage::DeviceToHost})
    CHECK(stage_slowdown(s, {}, kPaper) == doctest::Approx(1));
  CHECK(stage_slowdown(Stage::Other, {3, 3, 3}, kPaper) == 1);
}

TEST_CASE("what a small demand leaves of the cores' link is given to the large ones") {
  Bandwidths b;
  b.copy = 0.5;  // 1 GB/s on the cores' link
  b.memory = 100;
  // 7.8 - 1 for two Memory stages.
  CHECK(stage_slowdown(Stage::Memory, {1, 1, 0}, b) == doctest::Approx(5.2 / 3.4));
  CHECK(stage_slowdown(Stage::HostToDevice, {2, 0, 0}, b) == doctest::Approx(1));
}

TEST_CASE("copies in one direction share the link to the GPUs") {
  Bandwidths b;
  b.cpu = b.memory = 1000;
  CHECK(stage_slowdown(Stage::HostToDevice, {0, 3, 0}, b) == doctest::Approx(2.6 / 1.5));
  CHECK(stage_slowdown(Stage::HostToDevice, {0, 0, 3}, b) == doctest::Approx(1));
}

TEST_CASE("slowdowns of the paper's tasks beside three others") {
  struct Row {
    const ContentionTask &task, &neighbour;
    double slowdown;
  };
  for (const Row &r :
       {Row{kCbmat, kCbmat, 2.68}, Row{kCbmat, kSrad, 1.82}, Row{kSrad, kCbmat, 1.94},
        Row{kSrad, kSrad, 1.46}, Row{kKmeans, kCbmat, 1.16}, Row{kHotspot, kCbmat, 1.00},
        Row{kSrad, kCg, 1.46}, Row{kSrad, kEp, 1.00}}) {
    INFO(r.task.name, " beside ", r.neighbour.name);
    CHECK(std::abs(beside_three(r.task, r.neighbour) - r.slowdown) < 0.01);
  }
}

TEST_CASE("counting neighbours by stage gives the sum over all combinations") {
  std::mt19937 chance(3);
  for (size_t k = 0; k <= 5; k++) {
    StageShares task = random_shares(chance);
    std::vector<StageShares> neighbours;
    for (size_t i = 0; i < k; i++) neighbours.push_back(random_shares(chance));
    CHECK(slowdown(task, neighbours, kPaper) == doctest::Approx(printed_sum(task, neighbours)));
  }
}

TEST_CASE("a task with stages longer than its run time is scaled, and says so") {
  StageShares s = shares_of(kCbmat, kPaper);
  CHECK(s.scaled);
  CHECK(s[Stage::Other] == 0);
  CHECK(std::accumulate(s.of.begin(), s.of.end(), 0.0) == doctest::Approx(1));
  CHECK_FALSE(shares_of(kSrad, kPaper).scaled);
}

TEST_CASE("tasks of one core run one after the other, and neighbours slow each other down") {
  ContentionNode node;
  std::vector<Assignment> one_core = {{&kSrad, 0, 0}, {&kSrad, 0, 1}};
  std::vector<Span> spans = timeline_of(node, one_core, Contention::Modelled);
  CHECK(spans[1].start == doctest::Approx(kSrad.seconds));
  CHECK(spans[1].end == doctest::Approx(2 * kSrad.seconds));
  // The same task on each core: all make the same progress.
  std::vector<Assignment> all;
  for (unsigned i = 0; i < 4; i++) all.push_back({&kSrad, i, i});
  for (const Span &s : timeline_of(node, all, Contention::Modelled))
    CHECK(s.end == doctest::Approx(kSrad.seconds * beside_three(kSrad, kSrad)));
  for (const Span &s : timeline_of(node, all, Contention::Ignored))
    CHECK(s.end == doctest::Approx(kSrad.seconds));
}

TEST_CASE("a slowdown ends when the neighbour ends") {
  ContentionNode node;
  ContentionTask half = kCbmat;
  half.seconds /= 2;
  half.memory_gb /= 2;
  half.host_to_device_gb /= 2;
  half.device_to_host_gb /= 2;
  std::vector<Assignment> two = {{&kCbmat, 0, 0}, {&half, 1, 1}};
  std::vector<Span> spans = timeline_of(node, two, Contention::Modelled);
  std::vector<StageShares> neighbour(1, shares_of(kCbmat, kPaper));
  double slow = slowdown(neighbour[0], neighbour, kPaper);
  CHECK(slow > 1.1);
  CHECK(spans[1].end == doctest::Approx(half.seconds * slow));
  CHECK(spans[0].end == doctest::Approx(half.seconds * slow + kCbmat.seconds / 2));
}

TEST_CASE("with contention known, copying tasks are spread over the nodes") {
  // Two nodes, in list order: two that copy all the time, then two that compute.
  std::vector<ContentionTask> tasks = {kCbmat, kEp, kCbmat, kEp};
  ContentionNode node;
  node.cores = node.gpus = 2;
  EctSchedule blind = schedule_ect(tasks, node, 2, Contention::Ignored);
  EctSchedule aware = schedule_ect(tasks, node, 2, Contention::Modelled);
  CHECK(blind.assignments[0].size() == 2);
  CHECK(aware.makespan <= blind.makespan);
  CHECK(aware.makespan == doctest::Approx(kCbmat.seconds));
  PowerModel power{100, 10, 50};
  double gpu_seconds = 2 * kCbmat.seconds, all = aware.processor_seconds;
  CHECK(energy_of(aware, power) ==
        doctest::Approx(2 * 100 * aware.makespan + 10 * all + 50 * gpu_seconds));
}

TEST_CASE("task sets have the paper's shares, in an order that depends on the seed") {
  auto share = [](TaskSet set, size_t n) {
    std::vector<ContentionTask> tasks = task_set(set, n, 1);
    auto cbmat = std::count_if(tasks.begin(), tasks.end(),
                               [](const ContentionTask &t) { return t.name == "cbmat"; });
    return static_cast<double>(cbmat) / static_cast<double>(n);
  };
  CHECK(share(TaskSet::Equal, 120) == doctest::Approx(1 / 12.0));
  CHECK(share(TaskSet::WithoutCbmat, 110) == 0);
  CHECK(share(TaskSet::MuchCbmat, 160) == doctest::Approx(0.3125));
  auto order = [](unsigned seed) {
    std::string names;
    for (const ContentionTask &t : task_set(TaskSet::Equal, 24, seed)) names += t.name + " ";
    return names;
  };
  CHECK(order(1) == order(1));
  CHECK(order(1) != order(2));
}

TEST_CASE("contention-ECT is not slower than ECT on the paper's task sets") {
  for (TaskSet set : {TaskSet::Equal, TaskSet::WithoutCbmat, TaskSet::MuchCbmat}) {
    double blind = 0, aware = 0;
    for (unsigned seed = 1; seed <= 5; seed++) {
      std::vector<ContentionTask> tasks = task_set(set, 96, seed);
      blind += schedule_ect(tasks, {}, 10, Contention::Ignored).makespan;
      aware += schedule_ect(tasks, {}, 10, Contention::Modelled).makespan;
    }
    CHECK(aware <= blind);
  }
}
