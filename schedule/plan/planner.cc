// SPDX-License-Identifier: Apache-2.0
#include "schedule/plan/planner.h"

#include <algorithm>
#include <cmath>

namespace ckpt::schedule {

Planner::Planner(const Workload &w, size_t job, Ticks now, const Cluster &cluster,
                 std::span<const MoveCost> costs, const PolicyOptions &options)
    : w_(w), job_(job), now_(now), cluster_(cluster), costs_(costs), options_(options) {}

bool Planner::fits(ClassIndex c) const {
  return run_on(c) > 0 && w_.jobs[job_].nodes <= cluster_.classes[c].of.nodes;
}

// W_i of KS-5.3: when the class has started everything that is planned there, and has enough nodes.
Ticks Planner::waits_until(ClassIndex c) const {
  const ClassState &state = cluster_.classes[c];
  return state.calendar.free_for_ever(std::max(now_, state.last_start), w_.jobs[job_].nodes);
}

std::optional<WholeRun> Planner::earliest_completion() const {
  std::optional<WholeRun> best;
  for (ClassIndex c = 0; c < cluster_.classes.size(); c++) {
    if (!fits(c)) continue;
    WholeRun s{c, waits_until(c)};
    if (!best || s.at + run_on(c) < best->at + run_on(best->on)) best = s;
  }
  return best;
}

Plan Planner::whole(const WholeRun &start) const {
  return {{start.on, start.at, start.at + run_on(start.on), {}}};
}

Plan Planner::whole_in_idle() const {
  Plan best;
  for (ClassIndex c = 0; c < cluster_.classes.size(); c++) {
    if (!fits(c)) continue;
    std::optional<Interval> idle =
        cluster_.classes[c].calendar.idle_after(now_, w_.jobs[job_].nodes, run_on(c));
    if (idle && (best.empty() || idle->begin + run_on(c) < best.back().end))
      best = whole({c, idle->begin});
  }
  return best;
}

bool Planner::may_use(ClassIndex c, const WholeRun &start, IdleKinds kinds) const {
  return fits(c) && (c == start.on || kinds.other_classes);
}

// Rounded up, with `left` of the job to do.
double Planner::work_left(ClassIndex c, double left) const {
  return std::ceil(left * static_cast<double>(run_on(c)) - 1e-6);
}

// The first idle interval of a class that counts ([?24]).
std::optional<Interval> Planner::idle_on(ClassIndex c, Ticks from, const WholeRun &start,
                                         IdleKinds kinds) const {
  if (!may_use(c, start, kinds)) return {};
  if (!kinds.holes) from = std::max(from, waits_until(c));
  const Ticks until = options_.regions == Regions::All ? Calendar::kForever : start.at;
  if (from >= until) return {};
  std::optional<Interval> idle = cluster_.classes[c].calendar.idle_after(from, w_.jobs[job_].nodes);
  if (!idle || idle->begin >= until) return {};
  if (options_.regions == Regions::Bounded && idle->end >= Calendar::kForever) return {};
  idle->end = std::min(idle->end, until);
  return idle;
}

// Step 2: the earliest idle interval; it ends where one of a faster class begins.
std::optional<Planner::Region> Planner::next_region(Ticks from, const WholeRun &start,
                                                    IdleKinds kinds) const {
  std::optional<Region> first;
  std::vector<Region> all;
  for (ClassIndex c = 0; c < cluster_.classes.size(); c++) {
    std::optional<Interval> idle = idle_on(c, from, start, kinds);
    if (!idle) continue;
    all.push_back({c, *idle});
    const Region &r = all.back();
    if (!first || r.when.begin < first->when.begin ||
        (r.when.begin == first->when.begin && run_on(c) < run_on(first->on)))
      first = r;
  }
  for (const Region &r : all)
    if (run_on(r.on) < run_on(first->on) && r.when.begin < first->when.end)
      first->when.end = r.when.begin;
  return first;
}

// A shorter interval is of no use to the job (piece_in).
Ticks Planner::shortest_use(ClassIndex c, bool first, double left) const {
  const MoveCost &cost = costs_[c];
  if (options_.charge == Charge::Printed) return std::max<Ticks>(1, cost.checkpoint + cost.restore);
  const Ticks needed = static_cast<Ticks>(work_left(c, left));
  return std::max<Ticks>(1,
                         (first ? 0 : cost.restore) + std::min<Ticks>(cost.checkpoint + 1, needed));
}

// Between `from` and the result, no interval is of use. They are not stepped through one by one,
// as there can be hundreds of thousands. One that is too short can still end an interval of another
// class early. So the result is a time before which no class is idle, or else `from`.
Ticks Planner::skip_useless(Ticks from, const WholeRun &start, IdleKinds kinds, bool first,
                            double left) const {
  const unsigned nodes = w_.jobs[job_].nodes;
  Ticks to = Calendar::kForever;
  for (ClassIndex c = 0; c < cluster_.classes.size() && to > from; c++) {
    if (!may_use(c, start, kinds)) continue;
    std::optional<Interval> idle =
        cluster_.classes[c].calendar.idle_after(from, nodes, shortest_use(c, first, left));
    if (idle) to = std::min(to, idle->begin);
  }
  for (Ticks before = Calendar::kForever; to > from && to < before;) {
    before = to;
    for (ClassIndex c = 0; c < cluster_.classes.size(); c++)
      if (may_use(c, start, kinds)) to = cluster_.classes[c].calendar.idle_since(to, nodes);
  }
  return std::max(from, to);
}

// Steps 4 to 6: the job in a region, if `left` of it is still to do; ends before it begins if the
// move takes all of the region.
Piece Planner::piece_in(const Region &region, bool first, double left) const {
  const bool exact = options_.charge == Charge::Exact;
  Piece p{region.on, region.when.begin, region.when.end, costs_[region.on]};
  if (exact && first) p.cost.restore = 0;
  Ticks room = p.end - p.begin - p.cost.checkpoint - p.cost.restore;
  const double needed = work_left(p.on, left);
  // The last piece needs no checkpoint.
  if (static_cast<double>(room + (exact ? p.cost.checkpoint : 0)) < needed) {
    if (room <= 0) p.end = p.begin - 1;
    return p;
  }
  if (exact) p.cost.checkpoint = 0;
  Ticks shortened = p.begin + p.cost.restore + static_cast<Ticks>(needed) + p.cost.checkpoint;
  if (options_.shorten_last || p.end >= Calendar::kForever) p.end = shortened;
  return p;
}

// Step 7.
Plan Planner::finished_at(const WholeRun &start, Plan pieces, double done) const {
  const double whole_run = static_cast<double>(run_on(start.on));
  Ticks restore = costs_[start.on].restore;
  if (pieces.empty() || whole_run * done <= static_cast<double>(restore)) return whole(start);
  // With Charge::Exact no interval has paid for it.
  if (!options_.final_restore && options_.charge == Charge::Printed) restore = 0;
  Ticks rest = static_cast<Ticks>(std::ceil((1 - done) * whole_run - 1e-6));
  pieces.push_back({start.on, start.at, start.at + restore + rest, {0, restore}});
  return pieces;
}

Plan Planner::with_idle_pieces(const WholeRun &start, IdleKinds kinds) const {
  Plan plan;
  double done = 0;  // P
  for (Ticks from = now_;;) {
    from = skip_useless(from, start, kinds, plan.empty(), 1 - done);
    std::optional<Region> r = next_region(from, start, kinds);
    if (!r) break;
    from = r->when.end;
    Piece p = piece_in(*r, plan.empty(), 1 - done);
    if (p.end < p.begin) continue;
    plan.push_back(p);
    const double whole_run = static_cast<double>(run_on(r->on));
    double run = static_cast<double>(p.end - p.begin - p.cost.checkpoint - p.cost.restore);
    if (run >= (1 - done) * whole_run - 1e-6) return plan;
    done += run / whole_run;  // step 5
  }
  return finished_at(start, std::move(plan), done);
}

Ticks Planner::fastest_run() const {
  Ticks fastest = Calendar::kForever;
  for (ClassIndex c = 0; c < cluster_.classes.size(); c++)
    if (fits(c)) fastest = std::min(fastest, run_on(c));
  return fastest;
}

// By how much longer the plan occupies the job's nodes than the fastest whole run would.
double Planner::waste_of(const Plan &plan) const {
  Ticks occupied = 0;
  for (const Piece &p : plan) occupied += p.end - p.begin;
  return static_cast<double>(occupied - fastest_run());
}

Plan Planner::least_wasteful(const WholeRun &start, double weight) const {
  // The longer the queue, the more jobs wait for the node time that is wasted.
  const double backlog = static_cast<double>(start.at - now_) / static_cast<double>(fastest_run());
  Plan best;
  double best_value = 0;
  auto consider = [&](Plan plan) {
    if (plan.empty()) return;
    double value = static_cast<double>(plan.back().end) + weight * backlog * waste_of(plan);
    if (!best.empty() && value >= best_value) return;
    best = std::move(plan);
    best_value = value;
  };
  for (ClassIndex c = 0; c < cluster_.classes.size(); c++)
    if (fits(c)) consider(whole({c, waits_until(c)}));
  consider(whole_in_idle());
  consider(with_idle_pieces(start, {.holes = true, .other_classes = true}));
  return best;
}

}  // namespace ckpt::schedule
