// SPDX-License-Identifier: Apache-2.0
//
// When the tasks that are assigned to one node start and end. Each core and each GPU runs its tasks
// in the order in which they were assigned; a task starts when its core and its GPU are free. A
// running task makes progress at the inverse of its slowdown beside those that run with it, which
// changes whenever one of them starts or ends.
#pragma once

#include <optional>
#include <vector>

#include "schedule/contention/node.h"

namespace ckpt::schedule {

struct Assignment {
  const ContentionTask *task = nullptr;  // outlives the timeline
  unsigned core = 0;
  std::optional<unsigned> gpu;  // of a GPU task
};

struct Span {
  double start = 0, end = 0;  // seconds
};

enum class Contention { Ignored, Modelled };

// One span for each assignment. Cost: each start and end asks for the slowdown of all tasks that
// run then, so it grows with assignments times cores times the cost of slowdown().
std::vector<Span> timeline_of(const ContentionNode &node, const std::vector<Assignment> &assigned,
                              Contention contention);

}  // namespace ckpt::schedule
