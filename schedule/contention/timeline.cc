// SPDX-License-Identifier: Apache-2.0
#include "schedule/contention/timeline.h"

#include <algorithm>

#include "schedule/contention/run_until.h"
#include "schedule/contention/slowdown.h"

namespace ckpt::schedule {
namespace {

class Timeline {
 public:
  Timeline(const ContentionNode &node, const std::vector<Assignment> &assigned, Contention c)
      : node_(node),
        assigned_(assigned),
        contention_(c),
        spans_(assigned.size()),
        core_busy_(node.cores),
        gpu_busy_(node.gpus) {}

  std::vector<Span> run() {
    for (size_t i = 0; i < assigned_.size(); i++) waiting_.push_back(i);
    start_tasks();
    while (!running_.empty()) {
      run_until_one_ends();
      start_tasks();
    }
    return std::move(spans_);
  }

 private:
  struct Running {
    size_t assignment;
    StageShares shares;
    double left;  // seconds of work
    double slowdown = 1;
  };

  // Starts each waiting task before which no other waits for its core or its GPU.
  void start_tasks() {
    std::vector<char> core_taken = core_busy_, gpu_taken = gpu_busy_;
    std::erase_if(waiting_, [&](size_t i) {
      const Assignment &a = assigned_[i];
      bool free = !core_taken[a.core] && (!a.gpu || !gpu_taken[*a.gpu]);
      core_taken[a.core] = 1;
      if (a.gpu) gpu_taken[*a.gpu] = 1;
      if (free) start(i);
      return free;
    });
    update_slowdowns();
  }

  void start(size_t i) {
    const Assignment &a = assigned_[i];
    spans_[i].start = now_;
    set_busy(a, 1);
    running_.push_back({i, shares_of(*a.task, node_.bandwidths), a.task->seconds});
  }

  void set_busy(const Assignment &a, char busy) {
    core_busy_[a.core] = busy;
    if (a.gpu) gpu_busy_[*a.gpu] = busy;
  }

  void update_slowdowns() {
    if (contention_ == Contention::Ignored) return;
    for (Running &r : running_) {
      std::vector<StageShares> neighbours;
      for (const Running &other : running_)
        if (&other != &r) neighbours.push_back(other.shares);
      r.slowdown = schedule::slowdown(r.shares, neighbours, node_.bandwidths);
    }
  }

  void run_until_one_ends() {
    schedule::run_until_one_ends(running_, now_, [&](const Running &r) {
      spans_[r.assignment].end = now_;
      set_busy(assigned_[r.assignment], 0);
    });
  }

  const ContentionNode &node_;
  const std::vector<Assignment> &assigned_;
  const Contention contention_;
  double now_ = 0;
  std::vector<Span> spans_;
  std::vector<size_t> waiting_;  // in the order of assignment
  std::vector<Running> running_;
  std::vector<char> core_busy_, gpu_busy_;
};

}  // namespace

std::vector<Span> timeline_of(const ContentionNode &node, const std::vector<Assignment> &assigned,
                              Contention contention) {
  return Timeline(node, assigned, contention).run();
}

}  // namespace ckpt::schedule
