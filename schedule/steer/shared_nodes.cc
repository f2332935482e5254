// SPDX-License-Identifier: Apache-2.0
#include "schedule/steer/shared_nodes.h"

#include <algorithm>
#include <limits>

namespace ckpt::schedule {
namespace {

// The contention model's cost grows with the cores of a node that are in use.
constexpr unsigned kMostCores = 64;

std::vector<SharedTree> trees_of(const std::vector<LiveNode> &nodes, size_t classes) {
  std::vector<std::vector<size_t>> of_class(classes);
  for (size_t i = 0; i < nodes.size(); i++) of_class[nodes[i].on].push_back(i);
  std::vector<SharedTree> trees;
  for (std::vector<size_t> &all : of_class) trees.emplace_back(std::move(all));
  return trees;
}

double last_end(const std::vector<Span> &spans) {
  double end = 0;
  for (const Span &s : spans) end = std::max(end, s.end);
  return end;
}

}  // namespace

SharedNodes::SharedNodes(const std::vector<LiveNode> &nodes, size_t classes,
                         const SteerOptions &options)
    : nodes_(nodes),
      options_(options),
      on_(nodes.size()),
      ids_(nodes.size()),
      spans_(nodes.size()),
      of_class_(classes),
      until_(nodes.size()),
      trees_(trees_of(nodes, classes)),
      changed_(classes) {}

bool is_copying(const Sharer &s) {
  return s.shares[Stage::HostToDevice] > 0 || s.shares[Stage::DeviceToHost] > 0;
}

bool SharedNodes::any_copies(size_t node) const {
  return std::ranges::any_of(on_[node], is_copying);
}

bool SharedNodes::may_share(const LiveJob &job, ClassIndex c) const {
  return job.sharing && job.job.nodes == 1 && c < options_.shared.size() && options_.shared[c] &&
         job.sharing->needs.cores > 0 && job.sharing->needs.cores <= kMostCores;
}

std::optional<Sharer> SharedNodes::sharer(const LiveJob &job, size_t node, double seconds,
                                          bool running) const {
  const ClassIndex c = nodes_[node].on;
  if (!may_share(job, c) || !job.sharing->needs.fits_in(nodes_[node].has)) return {};
  return sharer_on(job, c, seconds, running);
}

Sharer SharedNodes::sharer_on(const LiveJob &job, ClassIndex c, double seconds,
                              bool running) const {
  const Resources &needs = job.sharing->needs;
  ContentionTask task = job.sharing->task;
  task.seconds = seconds_of(job.run[c]);
  return {shares_of_core(task, needs.cores, *options_.shared[c]), needs, seconds, running};
}

void SharedNodes::add(size_t node, u64 job, const Sharer &sharer) {
  const ClassIndex c = nodes_[node].on;
  if (on_[node].empty()) of_class_[c].push_back(node);
  changed_[c].push_back(node);
  spans_[node].clear();
  on_[node].push_back(sharer);
  ids_[node].push_back(job);
  where_[job] = node;
}

size_t SharedNodes::position(u64 job) const {
  const std::vector<u64> &ids = ids_[where_.at(job)];
  return static_cast<size_t>(std::find(ids.begin(), ids.end(), job) - ids.begin());
}

void SharedNodes::set_seconds(u64 job, double left) {
  const size_t node = where_.at(job);
  on_[node][position(job)].seconds = left;
  changed_[nodes_[node].on].push_back(node);
  spans_[node].clear();
}

void SharedNodes::set_until(size_t node, Ticks until) {
  until_[node] = until;
  changed_[nodes_[node].on].push_back(node);
}

const SharedTree &SharedNodes::tree(ClassIndex c) {
  for (size_t node : changed_[c])
    if (!on_[node].empty()) trees_[c].set(node, summary_of(node));
  changed_[c].clear();
  return trees_[c];
}

// Jobs start in their order, so one more does not start before one that waits. If none waits, one
// that needs more than is free starts when one of them ends.
SharedSummary SharedNodes::summary_of(size_t node) const {
  double last_start = 0, first_end = SharedSummary::kNever;
  for (const Span &s : spans(node)) {
    last_start = std::max(last_start, s.start);
    first_end = std::min(first_end, s.end);
  }
  const bool waits = !on_[node].back().running;
  return {nodes_[node].has, room(node), waits ? last_start : first_end, until_[node]};
}

Resources SharedNodes::room(size_t node) const {
  Resources used{0, 0, 0};
  for (const Sharer &s : on_[node]) {
    if (!s.running) return {0, 0, 0};
    used.cores += s.needs.cores;
    used.gpus += s.needs.gpus;
    used.megabytes += s.needs.megabytes;
  }
  const Resources &has = nodes_[node].has;
  const unsigned cores = std::min(has.cores, kMostCores);
  return {cores - std::min(cores, used.cores), has.gpus - std::min(has.gpus, used.gpus),
          std::max(0.0, has.megabytes * (1 + kRounding) - used.megabytes)};
}

// Jobs start in their order, so not before the last one of those that are there. What comes after
// them does not change when they end until it starts.
double SharedNodes::start_of(size_t node, const Resources &needs) const {
  if (has_room(node, needs)) return 0;
  const std::vector<Span> &all = spans(node);
  double last_start = 0, start = std::numeric_limits<double>::infinity();
  for (const Span &s : all) last_start = std::max(last_start, s.start);
  auto fits_at = [&](double time) {
    Resources used = needs;
    for (size_t i = 0; i < all.size(); i++) {
      if (all[i].end <= time) continue;
      used.cores += on_[node][i].needs.cores;
      used.gpus += on_[node][i].needs.gpus;
      used.megabytes += on_[node][i].needs.megabytes * (1 - kRounding);
    }
    return used.fits_in(nodes_[node].has) && used.cores <= kMostCores;
  };
  if (fits_at(last_start)) return last_start;
  for (const Span &s : all)
    if (s.end > last_start && s.end < start && fits_at(s.end)) start = s.end;
  return start;
}

// Beside those that run now it has this slowdown, at least until the first of them ends.
double SharedNodes::earliest_end(size_t node, const Sharer &sharer) const {
  if (!has_room(node, sharer.needs))
    return (start_of(node, sharer.needs) + sharer.seconds) * (1 - kRounding);
  std::vector<Sharer> jobs = on_[node];
  double first = std::numeric_limits<double>::infinity();
  for (const Sharer &s : jobs) first = std::min(first, s.seconds);
  jobs.push_back(sharer);
  const double slowdown = slowdown_beside(jobs, jobs.size() - 1, bandwidths(node));
  const double alone = sharer.seconds * slowdown;
  return (alone <= first ? alone : first + sharer.seconds - first / slowdown) * (1 - kRounding);
}

// Jobs start in their order, so one more changes nothing before it starts. Then it makes no other
// one faster at any time, if none copies, and the one that ends last loses something until a job
// could end.
double SharedNodes::least_delay(size_t node, const Sharer &sharer, double start) const {
  const std::vector<Span> &all = spans(node);
  std::vector<Sharer> jobs;  // that run at its start
  size_t last = 0;
  double end = 0, together = sharer.seconds;
  for (size_t i = 0; i < all.size(); i++) {
    if (all[i].end <= start) continue;
    if (all[i].end > end) last = jobs.size(), end = all[i].end;
    jobs.push_back(on_[node][i]);
    together = std::min(together, all[i].end - start);
  }
  if (jobs.empty()) return 0;
  const double before = slowdown_beside(jobs, last, bandwidths(node));
  jobs.push_back(sharer);
  return together * (1 / before - 1 / slowdown_beside(jobs, last, bandwidths(node)));
}

double SharedNodes::earliest_node_end(size_t node, const Sharer &sharer) const {
  if (is_copying(sharer) || any_copies(node)) return 0;
  const double start = start_of(node, sharer.needs);
  Resources more = sharer.needs;
  more.megabytes += 2 * kRounding * nodes_[node].has.megabytes;
  const bool is_sure = start_of(node, more) == start;  // whatever the sums are rounded to
  return (end_of(node) + (is_sure ? least_delay(node, sharer, start) : 0)) * (1 - kRounding);
}

double SharedNodes::slowdown_of(u64 job) const {
  size_t node = where_.at(job);
  // Running jobs come first.
  auto waiting =
      std::find_if(on_[node].begin(), on_[node].end(), [](const Sharer &s) { return !s.running; });
  return slowdown_beside(std::span(on_[node].begin(), waiting), position(job), bandwidths(node));
}

std::vector<Span> SharedNodes::spans(size_t node, const std::vector<Sharer> &jobs) const {
  Resources has = nodes_[node].has;
  has.cores = std::min(has.cores, kMostCores);
  return share_node(jobs, has, bandwidths(node));
}

const std::vector<Span> &SharedNodes::spans(size_t node) const {
  if (spans_[node].empty()) spans_[node] = spans(node, on_[node]);
  return spans_[node];
}

double SharedNodes::end_of(size_t node) const { return last_end(spans(node)); }

double SharedNodes::end_of_job(u64 job) const { return spans(where_.at(job))[position(job)].end; }

SharedNodes::Joined SharedNodes::joined(size_t node, const Sharer &sharer) const {
  std::vector<Sharer> jobs = on_[node];
  jobs.push_back(sharer);
  std::vector<Span> all = spans(node, jobs);
  return {all.back(), last_end(all)};
}

}  // namespace ckpt::schedule
