// SPDX-License-Identifier: Apache-2.0
#include "schedule/steer/shared_nodes.h"

#include <algorithm>

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

SharedNodes::SharedNodes(const std::vector<LiveNode> &nodes, const SteerOptions &options)
    : nodes_(nodes), options_(options), on_(nodes.size()), ids_(nodes.size()) {}

std::optional<Sharer> SharedNodes::sharer(const LiveJob &job, size_t node, double seconds,
                                          bool running) const {
  const ClassIndex c = nodes_[node].on;
  if (!job.sharing || job.job.nodes != 1 || c >= options_.shared.size() || !options_.shared[c])
    return {};
  const Resources &needs = job.sharing->needs;
  if (needs.cores == 0 || needs.cores > kMostCores || !needs.fits_in(nodes_[node].has)) return {};
  ContentionTask task = job.sharing->task;
  task.seconds = seconds_of(job.run[c]);
  return Sharer{shares_of_core(task, needs.cores, bandwidths(node)), needs, seconds, running};
}

void SharedNodes::add(size_t node, u64 job, const Sharer &sharer) {
  on_[node].push_back(sharer);
  ids_[node].push_back(job);
  where_[job] = node;
}

size_t SharedNodes::position(u64 job) const {
  const std::vector<u64> &ids = ids_[where_.at(job)];
  return static_cast<size_t>(std::find(ids.begin(), ids.end(), job) - ids.begin());
}

void SharedNodes::set_seconds(u64 job, double left) {
  on_[where_.at(job)][position(job)].seconds = left;
}

bool SharedNodes::has_free_core(size_t node) const {
  unsigned used = 0;
  for (const Sharer &s : on_[node])
    if (s.running) used += s.needs.cores;
  return used < std::min(nodes_[node].has.cores, kMostCores);
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

double SharedNodes::end_of(size_t node) const { return last_end(spans(node, on_[node])); }

double SharedNodes::end_of_job(u64 job) const {
  size_t node = where_.at(job);
  return spans(node, on_[node])[position(job)].end;
}

SharedNodes::Joined SharedNodes::joined(size_t node, const Sharer &sharer) const {
  std::vector<Sharer> jobs = on_[node];
  jobs.push_back(sharer);
  std::vector<Span> all = spans(node, jobs);
  return {all.back(), last_end(all)};
}

}  // namespace ckpt::schedule
