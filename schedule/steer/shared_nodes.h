// SPDX-License-Identifier: Apache-2.0
//
// Which jobs share which node, for one call of steer(): those that run there, and after them those
// that were planned to start there later.
#pragma once

#include <unordered_map>

#include "schedule/steer/steer.h"

namespace ckpt::schedule {

class SharedNodes {
 public:
  // Both must outlive this object.
  SharedNodes(const std::vector<LiveNode> &nodes, const SteerOptions &options);

  // The job as a sharer of that node, if it and the node's class may share and it is small enough.
  std::optional<Sharer> sharer(const LiveJob &job, size_t node, double seconds, bool running) const;
  void add(size_t node, u64 job, const Sharer &sharer);
  void set_seconds(u64 job, double left);

  bool has(u64 job) const { return where_.contains(job); }
  size_t node_of(u64 job) const { return where_.at(job); }
  bool is_shared(size_t node) const { return !on_[node].empty(); }
  bool has_free_core(size_t node) const;

  double slowdown_of(u64 job) const;  // beside those that run now
  // In seconds from now: until when the node, or a job, will run.
  double end_of(size_t node) const;
  double end_of_job(u64 job) const;
  // As if one more job were added: its own span and the end of the node.
  struct Joined {
    Span span;
    double node_end = 0;
  };
  Joined joined(size_t node, const Sharer &sharer) const;

 private:
  std::vector<Span> spans(size_t node, const std::vector<Sharer> &jobs) const;
  size_t position(u64 job) const;
  const Bandwidths &bandwidths(size_t node) const { return *options_.shared[nodes_[node].on]; }

  const std::vector<LiveNode> &nodes_;
  const SteerOptions &options_;
  std::vector<std::vector<Sharer>> on_;
  std::vector<std::vector<u64>> ids_;  // of on_
  std::unordered_map<u64, size_t> where_;
};

}  // namespace ckpt::schedule
