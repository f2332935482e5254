// SPDX-License-Identifier: Apache-2.0
#include "schedule/steer/shared_nodes.h"

#include <algorithm>
#include <limits>

namespace ckpt::schedule {
namespace {

// The contention model's cost grows with the cores of a node that are in use.
constexpr unsigned kMostCores = 64;

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
      most_room_(classes) {}

bool SharedNodes::may_share(const LiveJob &job, ClassIndex c) const {
  return job.sharing && job.job.nodes == 1 && c < options_.shared.size() && options_.shared[c] &&
         job.sharing->needs.cores > 0 && job.sharing->needs.cores <= kMostCores;
}

std::optional<Sharer> SharedNodes::sharer(const LiveJob &job, size_t node, double seconds,
                                          bool running) const {
  const ClassIndex c = nodes_[node].on;
  if (!may_share(job, c) || !job.sharing->needs.fits_in(nodes_[node].has)) return {};
  const Resources &needs = job.sharing->needs;
  ContentionTask task = job.sharing->task;
  task.seconds = seconds_of(job.run[c]);
  return Sharer{shares_of_core(task, needs.cores, bandwidths(node)), needs, seconds, running};
}

void SharedNodes::add(size_t node, u64 job, const Sharer &sharer) {
  const ClassIndex c = nodes_[node].on;
  if (on_[node].empty()) of_class_[c].push_back(node);
  most_room_[c].reset();
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
  spans_[node].clear();
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

// The most of each resource, perhaps of different nodes.
bool SharedNodes::may_start_now(ClassIndex c, const Resources &needs) {
  if (!most_room_[c]) {
    Resources most{0, 0, 0};
    for (size_t node : of_class_[c]) {
      const Resources free = room(node);
      most = {std::max(most.cores, free.cores), std::max(most.gpus, free.gpus),
              std::max(most.megabytes, free.megabytes)};
    }
    most_room_[c] = most;
  }
  return needs.fits_in(*most_room_[c]);
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
  if (!has_room(node, sharer.needs)) return earliest_end(node, sharer.needs, sharer.seconds);
  std::vector<Sharer> jobs = on_[node];
  double first = std::numeric_limits<double>::infinity();
  for (const Sharer &s : jobs) first = std::min(first, s.seconds);
  jobs.push_back(sharer);
  const double slowdown = slowdown_beside(jobs, jobs.size() - 1, bandwidths(node));
  const double alone = sharer.seconds * slowdown;
  return (alone <= first ? alone : first + sharer.seconds - first / slowdown) * (1 - kRounding);
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
