// SPDX-License-Identifier: Apache-2.0
#include "schedule/contention/ect.h"

#include <algorithm>
#include <limits>

namespace ckpt::schedule {
namespace {

// When each core and each GPU of a node has run all that is assigned to it.
struct Ready {
  std::vector<double> cores, gpus;
};

Ready ready_of(const ContentionNode &node, const std::vector<Assignment> &assigned,
               const std::vector<Span> &spans) {
  Ready ready{std::vector<double>(node.cores), std::vector<double>(node.gpus)};
  for (size_t i = 0; i < assigned.size(); i++) {
    double &core = ready.cores[assigned[i].core];
    core = std::max(core, spans[i].end);
    if (!assigned[i].gpu) continue;
    double &gpu = ready.gpus[*assigned[i].gpu];
    gpu = std::max(gpu, spans[i].end);
  }
  return ready;
}

unsigned first_of(const std::vector<double> &ready) {
  return static_cast<unsigned>(std::min_element(ready.begin(), ready.end()) - ready.begin());
}

class Ect {
 public:
  Ect(const ContentionNode &node, unsigned nodes, Contention predicted)
      : node_(node), predicted_(predicted), assigned_(nodes), spans_(nodes) {}

  void assign(const ContentionTask &task) {
    size_t best = 0;
    double best_end = std::numeric_limits<double>::infinity();
    for (size_t n = 0; n < assigned_.size(); n++) {
      // Nodes without tasks are alike.
      if (n > 0 && assigned_[n].empty() && assigned_[n - 1].empty()) continue;
      double end = with(n, task).back().end;
      if (end >= best_end) continue;
      best = n;
      best_end = end;
    }
    spans_[best] = with(best, task);
    assigned_[best].push_back(placed(best, task));
  }

  EctSchedule finish() && {
    EctSchedule result;
    for (std::vector<Assignment> &a : assigned_) {
      result.spans.push_back(timeline_of(node_, a, Contention::Modelled));
      for (const Span &s : result.spans.back()) {
        result.makespan = std::max(result.makespan, s.end);
        result.processor_seconds += s.end - s.start;
      }
    }
    result.assignments = std::move(assigned_);
    return result;
  }

 private:
  Assignment placed(size_t n, const ContentionTask &task) const {
    Ready ready = ready_of(node_, assigned_[n], spans_[n]);
    Assignment a{&task, first_of(ready.cores), {}};
    if (task.uses_gpu) a.gpu = first_of(ready.gpus);
    return a;
  }

  // The node's timeline if it got the task, which is the last assignment.
  std::vector<Span> with(size_t n, const ContentionTask &task) const {
    std::vector<Assignment> assigned = assigned_[n];
    assigned.push_back(placed(n, task));
    return timeline_of(node_, assigned, predicted_);
  }

  const ContentionNode &node_;
  const Contention predicted_;
  std::vector<std::vector<Assignment>> assigned_;
  std::vector<std::vector<Span>> spans_;  // as predicted
};

}  // namespace

EctSchedule schedule_ect(const std::vector<ContentionTask> &tasks, const ContentionNode &node,
                         unsigned nodes, Contention predicted) {
  Ect ect(node, nodes, predicted);
  for (const ContentionTask &t : tasks) ect.assign(t);
  return std::move(ect).finish();
}

double energy_of(const EctSchedule &schedule, const PowerModel &power) {
  double joules = power.node * schedule.makespan * static_cast<double>(schedule.spans.size());
  for (size_t n = 0; n < schedule.spans.size(); n++)
    for (size_t i = 0; i < schedule.spans[n].size(); i++) {
      const Span &s = schedule.spans[n][i];
      bool gpu = schedule.assignments[n][i].gpu.has_value();
      joules += (s.end - s.start) * (power.core + (gpu ? power.gpu : 0));
    }
  return joules;
}

}  // namespace ckpt::schedule
