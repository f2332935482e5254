// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulate/workload.h"

#include <algorithm>
#include <bit>

#include "schedule/simulate/random.h"

namespace ckpt::schedule {
namespace {

// Jobs that the nodes of the load complete in a second. `on_fast`, `on_slow`: the mean node-seconds
// of a job.
double capacity(LoadOf of, unsigned fast, unsigned slow, double on_fast, double on_slow) {
  switch (of) {
    case LoadOf::Fastest: return fast / on_fast;
    case LoadOf::All: return fast / on_fast + slow / on_slow;
    case LoadOf::Mean: return (fast + slow) / ((on_fast + on_slow) / 2);
    case LoadOf::Slowest: return slow / on_slow;
  }
  return 0;
}

// Mean seconds between two submissions: I = W / (P L), with W the mean node-seconds of a job and P
// the nodes that L is a share of (reading of [?28]).
double mean_interval(const Workload &w, const SyntheticOptions &o, unsigned fast, unsigned slow) {
  double on_fast = 0, on_slow = 0, n = static_cast<double>(w.jobs.size());
  for (size_t i = 0; i < w.jobs.size(); i++) {
    on_fast += w.jobs[i].nodes * seconds_of(w.run_time(i, 0));
    on_slow += w.jobs[i].nodes * seconds_of(w.run_time(i, 1));
  }
  double jobs_a_second = capacity(o.load_of, fast, slow, on_fast / n, on_slow / n);
  return o.arrivals == Arrivals::Printed ? o.load / jobs_a_second : 1 / (jobs_a_second * o.load);
}

// One of the powers of two from 2^least to 2^most.
unsigned random_nodes(Random &random, const SyntheticOptions &o, int least, int most) {
  if (o.mix == Mix::Equal) return 1u << static_cast<unsigned>(random.between(least, most + 1));
  // Their weights are r^(most - least), …, r, 1.
  double all = 0;
  for (int i = 0; i <= most - least; i++) all += std::pow(o.mix_ratio, i);
  double at = random.between(0, all), sum = std::pow(o.mix_ratio, most - least);
  int step = 0;
  for (; at >= sum && step < most - least; step++)
    sum += std::pow(o.mix_ratio, most - least - step - 1);
  return 1u << static_cast<unsigned>(o.mix == Mix::MoreSmall ? least + step : most - step);
}

double random_seconds(Random &random, const SyntheticOptions &o) {
  double most = o.max_minutes * 60;
  if (o.run_times == RunTimes::Uniform) return random.between(0, most);
  return std::exp(random.between(0, std::log(std::max(most, 1.0))));
}

}  // namespace

Workload synthetic_workload(const SyntheticOptions &o, unsigned fast, unsigned slow) {
  Random random(o.seed);
  Workload w{2, {}, {}};
  w.jobs.resize(o.jobs);
  w.run.reserve(2 * o.jobs);
  int least = std::bit_width(o.min_nodes) - 1, most = std::bit_width(o.max_nodes) - 1;
  for (Job &job : w.jobs) {
    job.nodes = random_nodes(random, o, least, most);
    job.megabytes = static_cast<float>(random.between(0, o.max_gb_per_node) * 1024 * job.nodes);
    job.compile_seconds = static_cast<float>(o.compile_seconds);
    job.wait_seconds = static_cast<float>(o.wait_seconds);
    double slow_seconds = random_seconds(random, o);
    Ticks on_slow = std::max<Ticks>(1, ticks_of(slow_seconds));
    Ticks on_fast =
        std::max<Ticks>(1, ticks_of(slow_seconds / random.between(o.min_speedup, o.max_speedup)));
    w.run.insert(w.run.end(), {on_fast, on_slow});
  }
  double interval = mean_interval(w, o, fast, slow), now = 0;
  for (Job &job : w.jobs)
    job.submit = ticks_of(now += o.intervals == Intervals::Uniform ? random.between(0, 2 * interval)
                                                                   : random.exponential(interval));
  return w;
}

}  // namespace ckpt::schedule
