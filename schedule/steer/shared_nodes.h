// SPDX-License-Identifier: Apache-2.0
//
// Which jobs share which node, for one call of steer(): those that run there, and after them those
// that were planned to start there later.
#pragma once

#include <unordered_map>

#include "schedule/steer/shared_tree.h"
#include "schedule/steer/steer.h"

namespace ckpt::schedule {

// Between main memory and GPUs.
bool is_copying(const Sharer &s);

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
  // Of any node of a class, if they may share.
  Sharer sharer_on(const LiveJob &job, ClassIndex c, double seconds, bool running) const;
  void add(size_t node, u64 job, const Sharer &sharer);
  void set_seconds(u64 job, double left);
  // The end of the node's reservation.
  Ticks until(size_t node) const { return until_[node]; }
  void set_until(size_t node, Ticks until);

  bool has(u64 job) const { return where_.contains(job); }
  // Those of a class that have a job.
  const std::vector<size_t> &shared(ClassIndex c) const { return of_class_[c]; }
  // The same, as they are now.
  const SharedTree &tree(ClassIndex c);
  size_t jobs_on(size_t node) const { return on_[node].size(); }
  bool any_copies(size_t node) const;
  bool is_large_enough(size_t node, const Resources &needs) const {
    return needs.fits_in(nodes_[node].has);
  }
  // In seconds from now, and cheaper than joined(): one more job does not end earlier.
  double earliest_end(size_t node, const Sharer &sharer) const;

  // The same for the end of the node. Nothing is said (0) where jobs copy: one that reads memory
  // slows down copies, which then disturb the others less.
  double earliest_node_end(size_t node, const Sharer &sharer) const;

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
  // Whether one more job would start on that node now.
  bool has_room(size_t node, const Resources &needs) const { return needs.fits_in(room(node)); }
  // At least what is free, where no job waits for it; otherwise nothing.
  Resources room(size_t node) const;
  double start_of(size_t node, const Resources &needs) const;
  double least_delay(size_t node, const Sharer &sharer, double start) const;
  SharedSummary summary_of(size_t node) const;
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
  std::vector<Ticks> until_;
  std::vector<SharedTree> trees_;             // by class, without the changes of changed_
  std::vector<std::vector<size_t>> changed_;  // by class
  std::unordered_map<u64, size_t> where_;
};

}  // namespace ckpt::schedule
