// SPDX-License-Identifier: Apache-2.0
#include "schedule/contention/sharers.h"

#include <algorithm>
#include <limits>

#include "schedule/contention/run_until.h"
#include "schedule/contention/slowdown.h"

namespace ckpt::schedule {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class SharedTimeline {
 public:
  SharedTimeline(std::span<const Sharer> jobs, const Resources &has, const Bandwidths &node)
      : jobs_(jobs), has_(has), node_(node), spans_(jobs.size(), {kNever, kNever}) {}

  std::vector<Span> run() {
    for (;;) {
      start_jobs();
      if (running_.empty()) return std::move(spans_);
      run_until_one_ends();
    }
  }

 private:
  struct Running {
    size_t job;
    double left;  // seconds without neighbours
    double slowdown = 1;
  };

  void start_jobs() {
    for (; next_ < jobs_.size(); next_++) {
      const Sharer &j = jobs_[next_];
      if (!j.running && !has_room_for(j.needs)) break;
      take(j.needs);
      spans_[next_].start = now_;
      running_.push_back({next_, j.seconds});
    }
    update_slowdowns();
  }

  bool has_room_for(const Resources &n) const {
    return n.cores + used_.cores <= has_.cores && n.gpus + used_.gpus <= has_.gpus &&
           n.megabytes + used_.megabytes <= has_.megabytes;
  }

  void take(const Resources &n) {
    used_.cores += n.cores;
    used_.gpus += n.gpus;
    used_.megabytes += n.megabytes;
  }

  void give_back(const Resources &n) {
    used_.cores -= n.cores;
    used_.gpus -= n.gpus;
    used_.megabytes -= n.megabytes;
  }

  void update_slowdowns() {
    std::vector<Sharer> together;
    for (const Running &r : running_) together.push_back(jobs_[r.job]);
    for (size_t i = 0; i < running_.size(); i++)
      running_[i].slowdown = slowdown_beside(together, i, node_);
  }

  void run_until_one_ends() {
    schedule::run_until_one_ends(running_, now_, [&](const Running &r) {
      spans_[r.job].end = now_;
      give_back(jobs_[r.job].needs);
    });
  }

  const std::span<const Sharer> jobs_;
  const Resources &has_;
  const Bandwidths &node_;
  Resources used_{0, 0, 0};
  double now_ = 0;
  size_t next_ = 0;  // the first job that has not started
  std::vector<Span> spans_;
  std::vector<Running> running_;
};

}  // namespace

StageShares shares_of_core(const ContentionTask &job, unsigned cores, const Bandwidths &node) {
  ContentionTask part = job;
  part.memory_gb /= cores;
  part.host_to_device_gb /= cores;
  part.device_to_host_gb /= cores;
  // What each core got when the job ran alone.
  Bandwidths alone = node;
  alone.core = std::min(node.core, node.cpu / cores);
  alone.copy = std::min(node.copy, node.link / cores);
  return shares_of(part, alone);
}

double slowdown_beside(std::span<const Sharer> jobs, size_t index, const Bandwidths &node) {
  const Sharer &own = jobs[index];
  std::vector<StageShares> neighbours(own.needs.cores - 1, own.shares);
  const double alone = own.needs.cores > 1 ? slowdown(own.shares, neighbours, node) : 1;
  for (size_t i = 0; i < jobs.size(); i++)
    if (i != index) neighbours.insert(neighbours.end(), jobs[i].needs.cores, jobs[i].shares);
  return std::max(1.0, slowdown(own.shares, neighbours, node) / alone);
}

std::vector<Span> share_node(std::span<const Sharer> jobs, const Resources &has,
                             const Bandwidths &node) {
  return SharedTimeline(jobs, has, node).run();
}

}  // namespace ckpt::schedule
