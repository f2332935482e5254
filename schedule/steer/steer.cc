// SPDX-License-Identifier: Apache-2.0
#include "schedule/steer/steer.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "schedule/steer/shared_nodes.h"

namespace ckpt::schedule {
namespace {

// A job that runs longer than was estimated is assumed to end within this time.
constexpr Ticks kOverdue = 60 * kTicksPerSecond;
constexpr double kAlmostDone = 0.999;
// Smaller changes of a slowdown are not worth a Progress.
constexpr double kSameSlowdown = 0.01;

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
        nodes_(nodes),
        shared_(nodes, options),
        shared_until_(nodes.size()) {
    for (size_t i = 0; i < nodes.size(); i++) index_[nodes[i].name] = i;
    occupied_.resize(nodes.size());
    first_free_.resize(classes.size());
    for (const LiveNode &n : nodes)
      if (n.busy_until > 0) occupy(n.name, std::max(n.busy_until, now_ + kOverdue));
  }

  Decisions decide(std::vector<LiveJob> jobs) {
    std::sort(jobs.begin(), jobs.end(), [](const LiveJob &a, const LiveJob &b) {
      return std::pair(a.job.submit, a.id) < std::pair(b.job.submit, b.id);
    });
    keep_running(jobs);
    for (const LiveJob &j : jobs) {
      if (!j.running)
        plan(j);
      else if (is_due(j))
        move_or_extend(j);
    }
    for (const LiveJob &j : jobs)
      if (j.running && !is_due(j)) move_if_better(j);
    for (const LiveJob &j : jobs)
      if (shared_.has(j.id) && j.running) count_progress(j);
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

  // The begin of the time in which the job has done more than LiveJob::done.
  Ticks counts_from(const LiveJob &j) const {
    Ticks since = j.running->since;
    const bool restores = j.done > 0 && !j.running->slowdown;
    if (restores) since += real_cost(j.job, cluster_.classes[j.running->on].of).restore;
    return since;
  }

  // The share of the whole job that is done by now.
  double done_by_now(const LiveJob &j) const {
    Ticks whole = j.run[j.running->on];
    auto pace = slowdowns_.find(j.id);
    double slowdown = j.running->slowdown.value_or(pace == slowdowns_.end() ? 1 : pace->second);
    double more = whole > 0 ? static_cast<double>(std::max<Ticks>(0, now_ - counts_from(j))) /
                                  (static_cast<double>(whole) * slowdown)
                            : 0;
    return std::min(j.done + more, kAlmostDone);
  }

  Ticks from_now(double seconds) const { return now_ + ticks_of(seconds); }

  Ticks expected_end(const LiveJob &j) const {
    if (shared_.has(j.id)) return from_now(shared_.end_of_job(j.id));
    return now_ + left_on(j, j.running->on);
  }

  // What is left of an overdue job is as much longer on slower nodes as its estimate is there:
  // otherwise each node would look better than its own, and it would be moved again and again.
  Ticks left_on(const LiveJob &j, ClassIndex c) const {
    double done = done_by_now(j);
    if (done < kAlmostDone) return share_of(j.run[c], 1 - done);
    Ticks here = std::max<Ticks>(1, j.run[j.running->on]);
    return share_of(kOverdue, static_cast<double>(j.run[c]) / static_cast<double>(here));
  }

  bool is_due(const LiveJob &j) const {
    return !shared_.has(j.id) && !j.running->leaving && j.running->until &&
           *j.running->until <= now_;
  }

  void keep_running(const std::vector<LiveJob> &jobs) {
    std::vector<const LiveJob *> sharing;
    for (const LiveJob &j : jobs)
      if (j.running && may_share(j))
        sharing.push_back(&j);
      else if (j.running)
        keep(j);
    // Nodes that a job has as a whole, or another scheduler's job, are not shared.
    for (const LiveJob *j : sharing) share_or_keep(*j);
    for (const LiveJob *j : sharing)
      if (shared_.has(j->id)) slowdowns_[j->id] = shared_.slowdown_of(j->id);
    for (const LiveJob *j : sharing)
      if (shared_.has(j->id)) shared_.set_seconds(j->id, seconds_left(*j));
    for (size_t i = 0; i < nodes_.size(); i++)
      if (shared_.is_shared(i)) occupy_shared(i);
  }

  bool may_share(const LiveJob &j) const {
    const std::vector<std::string> &on = j.running->nodes;
    auto at = on.size() == 1 ? index_.find(on[0]) : index_.end();
    return at != index_.end() && shared_.sharer(j, at->second, 0, true).has_value();
  }

  void share_or_keep(const LiveJob &j) {
    size_t node = index_.at(j.running->nodes[0]);
    if (!occupied_[node])
      shared_.add(node, j.id, *shared_.sharer(j, node, 0, true));
    else
      keep(j);
  }

  // Of a running job that shares its node.
  double seconds_left(const LiveJob &j) const {
    if (j.running->leaving) return 1;
    double done = done_by_now(j);
    return done < kAlmostDone ? (1 - done) * seconds_of(j.run[j.running->on])
                              : seconds_of(kOverdue);
  }

  void occupy_shared(size_t node) {
    shared_until_[node] = std::max(from_now(shared_.end_of(node)), now_ + 1);
    occupy(nodes_[node].name, shared_until_[node]);
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

  // Where and when a job that may share its node would run.
  struct Place {
    size_t node = 0;  // if it shares one now
    ClassIndex on = 0;
    Ticks begin = 0, end = 0, node_end = 0;
    bool beside = false;
  };

  bool is_idle(ClassIndex c, Ticks begin, Ticks end) const {
    if (begin >= end) return true;
    std::optional<Interval> idle = cluster_.classes[c].calendar.idle_after(begin, 1);
    return idle && idle->begin <= begin && idle->end >= end;
  }

  // On a node that is shared already. It must not occupy the node for so long that a job waits that
  // was planned before.
  void consider_beside(const LiveJob &j, std::optional<Place> &best) const {
    for (size_t i = 0; i < nodes_.size(); i++) {
      const ClassIndex c = nodes_[i].on;
      if (!shared_.is_shared(i) || j.run[c] <= 0) continue;
      Ticks run = share_of(j.run[c], left_of(j));
      // It takes at least as long as without neighbours.
      if (best && now_ + run >= best->end) continue;
      std::optional<Sharer> sharer = shared_.sharer(j, i, seconds_of(run), false);
      if (!sharer) continue;
      auto [span, node_end] = shared_.joined(i, *sharer);
      if (best && from_now(span.end) >= best->end) continue;
      if (is_idle(c, shared_until_[i], from_now(node_end)))
        best = {i, c, from_now(span.start), from_now(span.end), from_now(node_end), true};
    }
  }

  std::optional<size_t> empty_node(ClassIndex c, const Resources &needs) const {
    for (size_t i = 0; i < nodes_.size(); i++)
      if (nodes_[i].on == c && !occupied_[i] && needs.fits_in(nodes_[i].has)) return i;
    return {};
  }

  // On a node of its own, at first.
  void consider_empty(const LiveJob &j, std::optional<Place> &best) const {
    for (ClassIndex c = 0; c < cluster_.classes.size(); c++) {
      if (j.run[c] <= 0 || !fits_on(j, c)) continue;
      Ticks run = share_of(j.run[c], left_of(j));
      std::optional<Interval> idle;
      for (Ticks from = now_;; from = idle->end) {
        idle = cluster_.classes[c].calendar.idle_after(from, 1);
        if (!idle || idle->end - idle->begin >= run) break;
      }
      if (!idle || (best && idle->begin + run >= best->end)) continue;
      std::optional<size_t> node = empty_node(c, j.sharing->needs);
      if (idle->begin > now_ || node)
        best = {node.value_or(0), c, idle->begin, idle->begin + run, idle->begin + run, false};
    }
  }

  bool fits_on(const LiveJob &j, ClassIndex c) const {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const LiveNode &n) {
      return n.on == c && j.sharing->needs.fits_in(n.has);
    });
  }

  // Where the only nodes that are large enough for it are in use, it has no place, and waits: it is
  // planned before later jobs again once they are free.
  void plan_sharing(const LiveJob &j) {
    std::optional<Place> best;
    consider_beside(j, best);
    consider_empty(j, best);
    if (!best) return;
    Calendar &calendar = cluster_.classes[best->on].calendar;
    const bool now = best->begin <= now_;
    const double seconds = seconds_of(share_of(j.run[best->on], left_of(j)));
    if (now) decisions_.starts.push_back({j.id, best->on, {nodes_[best->node].name}, {}});
    if (best->beside) {
      Ticks &until = shared_until_[best->node];
      calendar.reserve(until, best->node_end, 1);
      until = std::max(until, best->node_end);
      shared_.add(best->node, j.id, *shared_.sharer(j, best->node, seconds, now));
    } else {
      calendar.reserve(best->begin, best->end, 1);
      Ticks &last_start = cluster_.classes[best->on].last_start;
      last_start = std::max(last_start, best->begin);
      if (now) begin_sharing(j, best->node, seconds, best->end);
    }
  }

  void begin_sharing(const LiveJob &j, size_t node, double seconds, Ticks end) {
    occupied_[node] = true;
    std::optional<Sharer> sharer = shared_.sharer(j, node, seconds, true);
    if (!sharer) return;  // nodes of this class are not shared
    shared_until_[node] = end;
    shared_.add(node, j.id, *sharer);
  }

  void plan(const LiveJob &j) {
    if (shares_somewhere(j)) return plan_sharing(j);
    Plan plan = plan_for(j, left_of(j));
    if (plan.empty()) return;
    reserve(j, plan);
    if (plan.front().begin > now_) return;
    std::vector<std::string> taken = take(plan.front().on, j.job.nodes);
    if (taken.size() == j.job.nodes)
      decisions_.starts.push_back({j.id, plan.front().on, std::move(taken), leaves_at(plan)});
  }

  bool shares_somewhere(const LiveJob &j) const {
    if (!j.sharing) return false;
    for (size_t i = 0; i < nodes_.size(); i++)
      if (shared_.sharer(j, i, 0, false)) return true;
    return false;
  }

  // Concrete nodes that are free now.
  std::vector<std::string> take(ClassIndex on, unsigned n) {
    // A node that is occupied stays so.
    size_t &begin = first_free_[on];
    while (begin < nodes_.size() && (nodes_[begin].on != on || occupied_[begin])) begin++;
    std::vector<size_t> free;
    for (size_t i = begin; i < nodes_.size() && free.size() < n; i++)
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
      const bool shares = shared_.has(j.id);
      if ((c == j.running->on && !shares) || j.run[c] <= 0) continue;
      if (shares && !empty_node(c, j.sharing->needs)) continue;
      Ticks end = now_ +
                  policy_.planned_cost(j.job, cluster_.classes[j.running->on].of).checkpoint +
                  policy_.planned_cost(j.job, cluster_.classes[c].of).restore + left_on(j, c);
      if (end >= best || !cluster_.classes[c].calendar.reserve(now_, end, j.job.nodes)) continue;
      better = true;
      break;
    }
    if (!better) return;
    decisions_.moves.push_back({j.id, done, planned_checkpoint(j)});
    moved_.insert(j.id);
    if (shared_.has(j.id)) shared_.set_seconds(j.id, planned_checkpoint(j));
  }

  // Once its neighbours are those of this call's decisions.
  void count_progress(const LiveJob &j) {
    if (j.running->leaving || moved_.contains(j.id)) return;
    double slowdown = shared_.slowdown_of(j.id);
    if (std::abs(slowdown - j.running->slowdown.value_or(1)) <= kSameSlowdown) return;
    decisions_.progress.push_back({j.id, done_by_now(j), std::max(now_, counts_from(j)), slowdown});
  }

  const Ticks now_;
  const SteerOptions &options_;
  const Policy policy_;
  Cluster cluster_;
  const std::vector<LiveNode> &nodes_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<bool> occupied_;
  std::vector<size_t> first_free_;  // by class: no node before it is free
  SharedNodes shared_;
  std::vector<Ticks> shared_until_;            // by node: the end of its reservation
  std::unordered_map<u64, double> slowdowns_;  // before this call's decisions
  std::unordered_set<u64> moved_;
  Decisions decisions_;
};

}  // namespace

Decisions steer(Ticks now, const std::vector<ResourceClass> &classes,
                const std::vector<LiveNode> &nodes, std::vector<LiveJob> jobs,
                const SteerOptions &options) {
  return Steering(now, classes, nodes, options).decide(std::move(jobs));
}

}  // namespace ckpt::schedule
