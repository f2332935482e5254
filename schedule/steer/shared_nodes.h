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
  // Of what is counted in another order than share_node() counts it.
  static constexpr double kRounding = 1e-9;

  // Both must outlive this object.
  SharedNodes(const std::vector<LiveNode> &nodes, size_t classes, const SteerOptions &options);

  // Whether the job and nodes of this class may share. It may still be too large for each of them.
  bool may_share(const LiveJob &job, ClassIndex c) const;
  // The job as a sharer of that node, if they may share and it is small enough.
  std::optional<Sharer> sharer(const LiveJob &job, size_t node, double seconds, bool running) const;
  void add(size_t node, u64 job, const Sharer &sharer);
  void set_seconds(u64 job, double left);

  bool has(u64 job) const { return where_.contains(job); }
  size_t node_of(u64 job) const { return where_.at(job); }
  // Those of a class that have a job.
  const std::vector<size_t> &shared(ClassIndex c) const { return of_class_[c]; }
  // False: on each shared node of the class, a job with these needs would have to wait.
  bool may_start_now(ClassIndex c, const Resources &needs);
  // Whether one more job would start on that node now.
  bool has_room(size_t node, const Resources &needs) const { return needs.fits_in(room(node)); }
  // In seconds from now, and cheaper than joined(): one more job does not end earlier. The first
  // one does not know its slowdown.
  double earliest_end(size_t node, const Resources &needs, double seconds) const {
    return (start_of(node, needs) + seconds) * (1 - kRounding);
  }
  double earliest_end(size_t node, const Sharer &sharer) const;

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
  // At least what is free, where no job waits for it; otherwise nothing.
  Resources room(size_t node) const;
  double start_of(size_t node, const Resources &needs) const;
  const std::vector<Span> &spans(size_t node) const;
  std::vector<Span> spans(size_t node, const std::vector<Sharer> &jobs) const;
  size_t position(u64 job) const;
  const Bandwidths &bandwidths(size_t node) const { return *options_.shared[nodes_[node].on]; }

  const std::vector<LiveNode> &nodes_;
  const SteerOptions &options_;
  std::vector<std::vector<Sharer>> on_;
  std::vector<std::vector<u64>> ids_;             // of on_
  mutable std::vector<std::vector<Span>> spans_;  // of on_; empty: not computed
  std::vector<std::vector<size_t>> of_class_;
  std::vector<std::optional<Resources>> most_room_;  // by class, of any node; nothing: not counted
  std::unordered_map<u64, size_t> where_;
};

}  // namespace ckpt::schedule
