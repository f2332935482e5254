// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulate/simulation.h"

#include <algorithm>
#include <queue>

#include "schedule/simulate/waits.h"

namespace ckpt::schedule {
namespace {

// Nodes that a plan had reserved and the job did not need. They are free from `known` on: before
// the job has ended no policy knows of them.
struct Unused {
  Ticks known;
  ClassIndex on;
  Interval when;
  unsigned nodes;
};

struct Later {
  bool operator()(const Unused &a, const Unused &b) const { return a.known > b.known; }
};

class Simulation {
 public:
  Simulation(const Workload &w, const std::vector<ResourceClass> &classes, PolicyName policy,
             const PolicyOptions &options)
      : w_(w), cluster_(classes), policy_(policy, options), options_(options) {
    outcome_.jobs.resize(w.jobs.size());
  }

  Result<Outcome> run() && {
    for (size_t i = 0; i < w_.jobs.size(); i++) CKPT_CHECK(submit(i));
    release_until(Calendar::kForever);
    tell_waits_apart();
    CKPT_CHECK(check());
    return std::move(outcome_);
  }

 private:
  Result<> submit(size_t job) {
    Ticks now = w_.jobs[job].submit;
    release_until(now);
    cluster_.advance(now);
    Plan plan = policy_.plan(w_, job, now, cluster_);
    if (plan.empty()) {
      outcome_.impossible++;
      return {};
    }
    CKPT_CHECK(reserve(job, plan));
    carry_out(job, plan);
    return {};
  }

  Result<> reserve(size_t job, const Plan &plan) {
    for (const Piece &p : plan)
      if (!cluster_.classes[p.on].calendar.reserve(p.begin, p.end, w_.jobs[job].nodes))
        return fail("job {} was planned on nodes of {} that are in use", job,
                    cluster_.classes[p.on].of.name);
    // A whole run is planned first come, first served; the last of several pieces, too.
    ClassState &c = cluster_.classes[plan.back().on];
    c.last_start = std::max(c.last_start, plan.back().begin);
    return {};
  }

  // What really happens: each piece takes its real costs, and the work ends when it is done.
  void carry_out(size_t job, const Plan &plan) {
    JobResult &r = outcome_.jobs[job];
    r.start = plan.front().begin;
    double left = 1;
    for (size_t i = 0; i < plan.size(); i++) {
      Piece p = plan[i];
      const Ticks planned_end = p.end;
      if (left > 0) {
        run_piece(job, p, left);
        r.end = p.end;
        r.migration += p.cost.checkpoint + p.cost.restore;
        r.execution += p.end - p.begin - p.cost.checkpoint - p.cost.restore;
        r.moves += i > 0;
        outcome_.pieces.push_back({job, p});
      } else {
        p.end = p.begin;  // the job ended before
      }
      if (p.end < planned_end)
        unused_.push({r.end, p.on, {std::max(p.end, r.end), planned_end}, w_.jobs[job].nodes});
    }
  }

  void run_piece(size_t job, Piece &p, double &left) {
    MoveCost real = real_cost(w_.jobs[job], cluster_.classes[p.on].of);
    if (p.cost.checkpoint > 0) p.cost.checkpoint = real.checkpoint;
    if (p.cost.restore > 0) p.cost.restore = real.restore;
    Ticks room = p.end - p.begin - p.cost.checkpoint - p.cost.restore;
    double whole = static_cast<double>(w_.run_time(job, p.on));
    double needed = std::ceil(left * whole - 1e-6);
    if (static_cast<double>(room) >= needed) {
      p.end = p.begin + p.cost.restore + static_cast<Ticks>(needed) + p.cost.checkpoint;
      left = 0;
    } else {
      left -= static_cast<double>(room) / whole;
    }
  }

  void release_until(Ticks now) {
    while (!unused_.empty() && unused_.top().known <= now) {
      const Unused &u = unused_.top();
      cluster_.advance(u.known);
      cluster_.classes[u.on].calendar.release(u.when.begin, u.when.end, u.nodes);
      unused_.pop();
    }
  }

  void tell_waits_apart() {
    IdleTime idle(cluster_);
    std::vector<Ticks> waits_from(w_.jobs.size());
    for (size_t i = 0; i < w_.jobs.size(); i++) waits_from[i] = w_.jobs[i].submit;
    // The pieces of one job follow each other in the order of time.
    for (const RanPiece &r : outcome_.pieces) {
      Interval wait{waits_from[r.job], r.piece.begin};
      Ticks a = idle.within(wait, w_.jobs[r.job].nodes);
      outcome_.jobs[r.job].wait_a += a;
      outcome_.jobs[r.job].wait_b += wait.end - wait.begin - a;
      waits_from[r.job] = r.piece.end;
    }
  }

  Result<> check() const {
    for (size_t i = 0; i < w_.jobs.size(); i++) {
      const JobResult &r = outcome_.jobs[i];
      if (r.end == 0) continue;
      Ticks sum = r.wait_a + r.wait_b + r.execution + r.migration;
      if (sum != r.turnaround(w_.jobs[i]) || r.wait_a < 0 || r.wait_b < 0 || r.migration < 0)
        return fail("the turnaround of job {} is {} ms, and its parts add up to {}", i,
                    r.turnaround(w_.jobs[i]), sum);
    }
    return {};
  }

  const Workload &w_;
  Cluster cluster_;
  const Policy policy_;
  const PolicyOptions options_;
  Outcome outcome_;
  std::priority_queue<Unused, std::vector<Unused>, Later> unused_;
};

// No plan ends later than all jobs one after another, each with more moves than pay off.
Result<> check_range(const Workload &w, const std::vector<ResourceClass> &classes,
                     const PolicyOptions &options) {
  constexpr double kMoves = 16;
  double sum = w.jobs.empty() ? 0 : static_cast<double>(w.jobs.back().submit);
  for (size_t i = 0; i < w.jobs.size(); i++) {
    double longest = 0;
    for (ClassIndex c = 0; c < w.classes; c++) {
      const MoveCost cost = real_cost(w.jobs[i], classes[c]);
      const double move = static_cast<double>(cost.checkpoint) + static_cast<double>(cost.restore);
      longest = std::max(
          longest, static_cast<double>(w.run_time(i, c)) + kMoves * options.overestimate * move);
    }
    sum += longest;
    if (sum >= kMostTicks)
      return fail_with_hint(
          fmt::format("job {}: with this job, the jobs take 10^7 years one after another", i + 1),
          "check the units of run times and memory, the speeds of the classes, and --load");
  }
  return {};
}

}  // namespace

Result<Outcome> simulate(const Workload &w, const std::vector<ResourceClass> &classes,
                         PolicyName policy, const PolicyOptions &options) {
  CKPT_CHECK(check_range(w, classes, options));
  return Simulation(w, classes, policy, options).run();
}

}  // namespace ckpt::schedule
