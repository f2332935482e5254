// SPDX-License-Identifier: Apache-2.0
#include "schedule/steer/steer.h"

#include <algorithm>
#include <unordered_map>

namespace ckpt::schedule {
namespace {

// A job that runs longer than was estimated is assumed to end within this time.
constexpr Ticks kOverdue = 60 * kTicksPerSecond;
constexpr double kAlmostDone = 0.999;

Ticks share_of(Ticks whole, double share) {
  return std::max<Ticks>(1, static_cast<Ticks>(std::ceil(static_cast<double>(whole) * share)));
}

class Steering {
 public:
  Steering(Ticks now, const std::vector<ResourceClass> &classes, const std::vector<LiveNode> &nodes,
           const SteerOptions &options)
      : now_(now),
        options_(options),
        policy_(options.policy, options.of),
        cluster_(with_delay(classes, options)),
        nodes_(nodes) {
    for (size_t i = 0; i < nodes.size(); i++) index_[nodes[i].name] = i;
    occupied_.resize(nodes.size());
    for (const LiveNode &n : nodes)
      if (n.busy_until > 0) occupy(n.name, std::max(n.busy_until, now_ + kOverdue));
  }

  Decisions decide(std::vector<LiveJob> jobs) {
    std::sort(jobs.begin(), jobs.end(), [](const LiveJob &a, const LiveJob &b) {
      return std::pair(a.job.submit, a.id) < std::pair(b.job.submit, b.id);
    });
    for (const LiveJob &j : jobs)
      if (j.running) keep(j);
    for (const LiveJob &j : jobs) {
      if (!j.running)
        plan(j);
      else if (is_due(j))
        move_or_extend(j);
    }
    for (const LiveJob &j : jobs)
      if (j.running && !is_due(j)) move_if_better(j);
    return std::move(decisions_);
  }

 private:
  // The time in the batch system is part of each restore.
  static std::vector<ResourceClass> with_delay(std::vector<ResourceClass> classes,
                                               const SteerOptions &options) {
    for (ResourceClass &c : classes) c.costs.restore.base += seconds_of(options.requeue_delay);
    return classes;
  }

  void occupy(const std::string &name, Ticks until) {
    auto at = index_.find(name);
    if (at == index_.end() || occupied_[at->second]) return;
    occupied_[at->second] = true;
    cluster_.classes[nodes_[at->second].on].calendar.reserve(now_, until, 1);
  }

  double planned_checkpoint(const LiveJob &j) const {
    return seconds_of(policy_.planned_cost(j.job, cluster_.classes[j.running->on].of).checkpoint);
  }

  static double left_of(const LiveJob &j) { return std::clamp(1 - j.done, 0.0, 1.0); }

  // The share of the whole job that is done by now.
  double done_by_now(const LiveJob &j) const {
    Ticks whole = j.run[j.running->on];
    Ticks since = j.running->since;
    if (j.done > 0) since += real_cost(j.job, cluster_.classes[j.running->on].of).restore;
    double more = whole > 0 ? static_cast<double>(std::max<Ticks>(0, now_ - since)) /
                                  static_cast<double>(whole)
                            : 0;
    return std::min(j.done + more, kAlmostDone);
  }

  Ticks expected_end(const LiveJob &j) const {
    double done = done_by_now(j);
    return now_ + (done < kAlmostDone ? share_of(j.run[j.running->on], 1 - done) : kOverdue);
  }

  bool is_due(const LiveJob &j) const {
    return !j.running->leaving && j.running->until && *j.running->until <= now_;
  }

  void keep(const LiveJob &j) {
    Ticks end = j.running->until ? *j.running->until : expected_end(j);
    if (j.running->leaving) end = now_ + kTicksPerSecond;
    // What is due is planned again below.
    if (is_due(j)) end = now_ + 1;
    for (const std::string &n : j.running->nodes) occupy(n, std::max(end, now_ + 1));
  }

  // The plan for what is left of a job, as if it were submitted now.
  Plan plan_for(const LiveJob &j, double left) const {
    Workload w{static_cast<unsigned>(cluster_.classes.size()), {j.job}, {}};
    w.jobs[0].submit = now_;
    for (Ticks whole : j.run) w.run.push_back(whole > 0 ? share_of(whole, left) : 0);
    return policy_.plan(w, 0, now_, cluster_);
  }

  void reserve(const LiveJob &j, const Plan &plan) {
    for (const Piece &p : plan)
      cluster_.classes[p.on].calendar.reserve(p.begin, p.end, j.job.nodes);
    ClassState &c = cluster_.classes[plan.back().on];
    c.last_start = std::max(c.last_start, plan.back().begin);
  }

  static std::optional<Ticks> leaves_at(const Plan &plan) {
    if (plan.size() < 2) return {};
    return plan.front().end - plan.front().cost.checkpoint;
  }

  void plan(const LiveJob &j) {
    Plan plan = plan_for(j, left_of(j));
    if (plan.empty()) return;
    reserve(j, plan);
    if (plan.front().begin > now_) return;
    std::vector<std::string> taken = take(plan.front().on, j.job.nodes);
    if (taken.size() == j.job.nodes)
      decisions_.starts.push_back({j.id, plan.front().on, std::move(taken), leaves_at(plan)});
  }

  // Concrete nodes that are free now.
  std::vector<std::string> take(ClassIndex on, unsigned n) {
    std::vector<size_t> free;
    for (size_t i = 0; i < nodes_.size() && free.size() < n; i++)
      if (nodes_[i].on == on && !occupied_[i]) free.push_back(i);
    if (free.size() < n) return {};
    std::vector<std::string> names;
    for (size_t i : free) {
      occupied_[i] = true;
      names.push_back(nodes_[i].name);
    }
    return names;
  }

  void move_or_extend(const LiveJob &j) {
    // Its own nodes are free from the next tick on, so its plan begins there at the earliest.
    double done = done_by_now(j);
    Plan plan = plan_for(j, 1 - done);
    bool stays =
        !plan.empty() && plan.front().on == j.running->on && plan.front().begin <= now_ + 1;
    if (stays) {
      reserve(j, plan);
      decisions_.extensions.push_back({j.id, leaves_at(plan)});
    } else {
      decisions_.moves.push_back({j.id, done, planned_checkpoint(j)});
    }
  }

  bool migrates() const {
    return options_.policy != PolicyName::Mct && options_.policy != PolicyName::Mctb;
  }

  // After all waiting jobs were planned: as far as is known, nodes that are free then stay free.
  void move_if_better(const LiveJob &j) {
    if (!migrates() || j.running->leaving) return;
    double done = done_by_now(j);
    Ticks best = expected_end(j);
    bool better = false;
    for (ClassIndex c = 0; c < cluster_.classes.size(); c++) {
      if (c == j.running->on || j.run[c] <= 0) continue;
      Ticks end = now_ +
                  policy_.planned_cost(j.job, cluster_.classes[j.running->on].of).checkpoint +
                  policy_.planned_cost(j.job, cluster_.classes[c].of).restore +
                  share_of(j.run[c], 1 - done);
      if (end >= best || !cluster_.classes[c].calendar.reserve(now_, end, j.job.nodes)) continue;
      better = true;
      break;
    }
    if (better) decisions_.moves.push_back({j.id, done, planned_checkpoint(j)});
  }

  const Ticks now_;
  const SteerOptions &options_;
  const Policy policy_;
  Cluster cluster_;
  const std::vector<LiveNode> &nodes_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<bool> occupied_;
  Decisions decisions_;
};

}  // namespace

Decisions steer(Ticks now, const std::vector<ResourceClass> &classes,
                const std::vector<LiveNode> &nodes, std::vector<LiveJob> jobs,
                const SteerOptions &options) {
  return Steering(now, classes, nodes, options).decide(std::move(jobs));
}

}  // namespace ckpt::schedule
