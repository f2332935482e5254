// SPDX-License-Identifier: Apache-2.0
#include "schedule/steer/steer.h"

#include <algorithm>
#include <unordered_set>

#include "schedule/steer/estimates.h"
#include "schedule/steer/node_pool.h"
#include "schedule/steer/place_search.h"
#include "schedule/steer/possible_moves.h"

namespace ckpt::schedule {
namespace {

// Smaller changes of a slowdown are not worth a Progress.
constexpr double kSameSlowdown = 0.01;

class Steering {
 public:
  Steering(Ticks now, const std::vector<ResourceClass> &classes, const std::vector<LiveNode> &nodes,
           const SteerOptions &options)
      : now_(now),
        options_(options),
        policy_(options.policy, options.of),
        cluster_(with_delay(classes, options)),
        estimates_(now, cluster_, policy_),
        nodes_(nodes, classes.size()),
        shared_(nodes, classes.size(), options),
        places_(now, cluster_, shared_) {
    for (const LiveNode &n : nodes)
      if (n.busy_until > 0) occupy(n.name, std::max(n.busy_until, now_ + kOverdue));
  }

  Decisions decide(std::vector<LiveJob> jobs) {
    std::sort(jobs.begin(), jobs.end(), [](const LiveJob &a, const LiveJob &b) {
      return std::pair(a.job.submit, a.id) < std::pair(b.job.submit, b.id);
    });
    keep_running(jobs);
    find_possible_moves(jobs);
    undecided_ = jobs.size();
    for (size_t i = 0; i < jobs.size() && is_worth_planning(jobs, i); i++) {
      if (!jobs[i].running)
        plan(jobs[i]);
      else if (is_due(jobs[i]))
        move_or_extend(jobs[i]);
    }
    for (const LiveJob &j : jobs)
      if (j.running && !is_due(j)) move_if_better(j);
    for (const LiveJob &j : jobs)
      if (shared_.has(j.id) && j.running) count_progress(j);
    return std::move(decisions_);
  }

 private:
  // Only what begins now is decided, and what is planned makes no node free. So planning ends where
  // no later job can begin now or is due, and no running job can be moved: there it would decide
  // nothing. In a cluster that is full, that is after a few jobs of a long queue.
  bool is_worth_planning(const std::vector<LiveJob> &jobs, size_t from) {
    if (options_.plan_all) return true;
    while (undecided_ > from && !may_decide(jobs[undecided_ - 1])) {
      undecided_--;
      witness_.reset();
    }
    return undecided_ > from || possible_moves_.any(cluster_, now_);
  }

  bool may_decide(const LiveJob &j) { return j.running ? is_due(j) : may_begin_now(j); }

  bool may_begin_now(const LiveJob &j) {
    if (witness_ && places_.still_holds(*witness_)) return true;
    const bool shares = shares_somewhere(j);
    for (ClassIndex c = 0; c < cluster_.classes.size(); c++)
      if (j.run[c] > 0 && (shares ? may_share_now(j, c) : has_idle_nodes(j, c))) return true;
    return false;
  }

  // On an empty node, also beside jobs that will have been placed there, or beside those that are.
  bool may_share_now(const LiveJob &j, ClassIndex c) {
    const Ticks end = now_ + share_of(j.run[c], Estimates::left_of(j));
    if (nodes_.has_free(c) && is_idle(c, now_, end)) return true;
    witness_ = places_.may_begin_now(j, c);
    return witness_.has_value();
  }

  // For long enough to run to its end, or to be of use before it leaves again.
  bool has_idle_nodes(const LiveJob &j, ClassIndex c) const {
    if (cluster_.classes[c].calendar.free_at(now_) < j.job.nodes) return false;
    const Ticks leave = policy_.planned_cost(j.job, cluster_.classes[c].of).checkpoint + 1;
    return is_idle(c, now_, now_ + std::min(leave, share_of(j.run[c], Estimates::left_of(j))),
                   j.job.nodes);
  }

  void find_possible_moves(const std::vector<LiveJob> &jobs) {
    if (!migrates()) return;
    for (const LiveJob &j : jobs) {
      if (!j.running || j.running->leaving || is_due(j)) continue;
      // Jobs that it shares its node with can still make it end later.
      const Ticks best = shared_.has(j.id) ? Calendar::kForever : expected_end(j);
      for (ClassIndex c = 0; c < cluster_.classes.size(); c++) {
        if (cluster_.classes[c].calendar.free_at(now_) < j.job.nodes || !may_move_to(j, c))
          continue;
        const Ticks end = estimates_.end_if_moved(j, c);
        if (end < best) possible_moves_.add(c, end, j.job.nodes);
      }
    }
  }

  // The time in the batch system is part of each restore.
  static std::vector<ResourceClass> with_delay(std::vector<ResourceClass> classes,
                                               const SteerOptions &options) {
    for (ResourceClass &c : classes) c.costs.restore.base += seconds_of(options.requeue_delay);
    return classes;
  }

  void occupy(const std::string &name, Ticks until) {
    std::optional<size_t> node = nodes_.find(name);
    if (!node || nodes_.is_occupied(*node)) return;
    nodes_.occupy(*node);
    cluster_.classes[nodes_[*node].on].calendar.reserve(now_, until, 1);
  }

  Ticks from_now(double seconds) const { return now_ + ticks_of(seconds); }

  Ticks expected_end(const LiveJob &j) const {
    if (shared_.has(j.id)) return from_now(shared_.end_of_job(j.id));
    return now_ + estimates_.left_on(j, j.running->on);
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
      if (shared_.has(j->id)) estimates_.set_slowdown(j->id, shared_.slowdown_of(j->id));
    for (const LiveJob *j : sharing)
      if (shared_.has(j->id)) shared_.set_seconds(j->id, estimates_.seconds_left(*j));
    for (ClassIndex c = 0; c < cluster_.classes.size(); c++)
      for (size_t node : shared_.shared(c)) occupy_shared(node);
  }

  bool may_share(const LiveJob &j) const {
    const std::vector<std::string> &on = j.running->nodes;
    std::optional<size_t> node = on.size() == 1 ? nodes_.find(on[0]) : std::nullopt;
    return node && shared_.sharer(j, *node, 0, true).has_value();
  }

  void share_or_keep(const LiveJob &j) {
    const size_t node = *nodes_.find(j.running->nodes[0]);
    if (!nodes_.is_occupied(node))
      shared_.add(node, j.id, *shared_.sharer(j, node, 0, true));
    else
      keep(j);
  }

  void occupy_shared(size_t node) {
    shared_.set_until(node, std::max(from_now(shared_.end_of(node)), now_ + 1));
    occupy(nodes_[node].name, shared_.until(node));
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

  bool is_idle(ClassIndex c, Ticks begin, Ticks end, unsigned nodes = 1) const {
    return cluster_.classes[c].calendar.is_idle(begin, end, nodes);
  }

  // It must not occupy the node for so long that a job waits that was planned before.
  std::optional<Place> best_beside(const LiveJob &j, Ticks by) const {
    return options_.plan_all ? places_.first_of_all(j, by) : places_.first_beside(j, by);
  }

  // On a node of its own, at first.
  std::optional<Place> best_empty(const LiveJob &j) {
    std::optional<Place> best;
    for (ClassIndex c = 0; c < cluster_.classes.size(); c++) {
      if (j.run[c] <= 0 || !nodes_.has_room(c, j.sharing->needs)) continue;
      const Ticks run = share_of(j.run[c], Estimates::left_of(j));
      std::optional<Interval> idle = cluster_.classes[c].calendar.idle_after(now_, 1, run);
      if (!idle || (best && idle->begin + run >= best->end)) continue;
      std::optional<size_t> node = nodes_.first_free(c, j.sharing->needs);
      if (idle->begin > now_ || node)
        best = {node.value_or(0), c, idle->begin, idle->begin + run, idle->begin + run, false};
    }
    return best;
  }

  // Where the only nodes that are large enough for it are in use, it has no place, and waits: it is
  // planned before later jobs again once they are free.
  void plan_sharing(const LiveJob &j) {
    const std::optional<Place> empty = best_empty(j);
    std::optional<Place> best = best_beside(j, empty ? empty->end : Calendar::kForever);
    if (!best) best = empty;
    if (!best) return;
    Calendar &calendar = cluster_.classes[best->on].calendar;
    const bool now = best->begin <= now_;
    const double seconds = seconds_of(share_of(j.run[best->on], Estimates::left_of(j)));
    if (now) decisions_.starts.push_back({j.id, best->on, {nodes_[best->node].name}, {}});
    if (best->beside) {
      const Ticks until = shared_.until(best->node);
      calendar.reserve(until, best->node_end, 1);
      shared_.set_until(best->node, std::max(until, best->node_end));
      shared_.add(best->node, j.id, *shared_.sharer(j, best->node, seconds, now));
    } else {
      calendar.reserve(best->begin, best->end, 1);
      Ticks &last_start = cluster_.classes[best->on].last_start;
      last_start = std::max(last_start, best->begin);
      if (now) begin_sharing(j, best->node, seconds, best->end);
    }
  }

  void begin_sharing(const LiveJob &j, size_t node, double seconds, Ticks end) {
    nodes_.occupy(node);
    std::optional<Sharer> sharer = shared_.sharer(j, node, seconds, true);
    if (!sharer) return;  // nodes of this class are not shared
    shared_.set_until(node, end);
    shared_.add(node, j.id, *sharer);
  }

  void plan(const LiveJob &j) {
    if (shares_somewhere(j)) return plan_sharing(j);
    Plan plan = plan_for(j, Estimates::left_of(j));
    if (plan.empty()) return;
    reserve(j, plan);
    if (plan.front().begin > now_) return;
    std::vector<std::string> taken = take(plan.front().on, j.job.nodes);
    if (taken.size() == j.job.nodes)
      decisions_.starts.push_back({j.id, plan.front().on, std::move(taken), leaves_at(plan)});
  }

  bool shares_somewhere(const LiveJob &j) const {
    for (ClassIndex c = 0; c < cluster_.classes.size(); c++)
      if (shared_.may_share(j, c) && nodes_.has_room(c, j.sharing->needs)) return true;
    return false;
  }

  // Concrete nodes that are free now.
  std::vector<std::string> take(ClassIndex on, unsigned n) {
    std::vector<std::string> names;
    for (size_t node : nodes_.first_free(on, n)) {
      nodes_.occupy(node);
      names.push_back(nodes_[node].name);
    }
    return names;
  }

  void move_or_extend(const LiveJob &j) {
    // Its own nodes are free from the next tick on, so its plan begins there at the earliest.
    double done = estimates_.done_by_now(j);
    Plan plan = plan_for(j, 1 - done);
    // Where no class has enough nodes any more, as some were drained, it would wait without end.
    bool stays =
        plan.empty() || (plan.front().on == j.running->on && plan.front().begin <= now_ + 1);
    if (stays) {
      if (!plan.empty()) reserve(j, plan);
      decisions_.extensions.push_back({j.id, leaves_at(plan)});
    } else {
      decisions_.moves.push_back({j.id, done, estimates_.planned_checkpoint(j)});
    }
  }

  bool migrates() const {
    return options_.policy != PolicyName::Mct && options_.policy != PolicyName::Mctb;
  }

  bool may_move_to(const LiveJob &j, ClassIndex c) {
    if (j.run[c] <= 0) return false;
    return shared_.has(j.id) ? nodes_.first_free(c, j.sharing->needs).has_value()
                             : c != j.running->on;
  }

  // After all waiting jobs were planned: as far as is known, nodes that are free then stay free.
  void move_if_better(const LiveJob &j) {
    if (!migrates() || j.running->leaving) return;
    const Ticks best = expected_end(j);
    bool better = false;
    for (ClassIndex c = 0; c < cluster_.classes.size() && !better; c++) {
      if (!may_move_to(j, c)) continue;
      const Ticks end = estimates_.end_if_moved(j, c);
      better = end < best && cluster_.classes[c].calendar.reserve(now_, end, j.job.nodes);
    }
    if (!better) return;
    decisions_.moves.push_back({j.id, estimates_.done_by_now(j), estimates_.planned_checkpoint(j)});
    moved_.insert(j.id);
    if (shared_.has(j.id)) shared_.set_seconds(j.id, estimates_.planned_checkpoint(j));
  }

  // Once its neighbours are those of this call's decisions.
  void count_progress(const LiveJob &j) {
    if (j.running->leaving || moved_.contains(j.id)) return;
    double slowdown = shared_.slowdown_of(j.id);
    if (std::abs(slowdown - j.running->slowdown.value_or(1)) <= kSameSlowdown) return;
    decisions_.progress.push_back(
        {j.id, estimates_.done_by_now(j), std::max(now_, estimates_.counts_from(j)), slowdown});
  }

  const Ticks now_;
  const SteerOptions &options_;
  const Policy policy_;
  Cluster cluster_;
  Estimates estimates_;  // before this call's decisions
  NodePool nodes_;
  SharedNodes shared_;
  PlaceSearch places_;
  std::unordered_set<u64> moved_;
  size_t undecided_ = 0;                         // no job from here on can be decided on
  std::optional<PlaceSearch::Witness> witness_;  // that the last job before them can
  PossibleMoves possible_moves_;
  Decisions decisions_;
};

}  // namespace

Decisions steer(Ticks now, const std::vector<ResourceClass> &classes,
                const std::vector<LiveNode> &nodes, std::vector<LiveJob> jobs,
                const SteerOptions &options) {
  return Steering(now, classes, nodes, options).decide(std::move(jobs));
}

}  // namespace ckpt::schedule
