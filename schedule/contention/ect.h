// SPDX-License-Identifier: Apache-2.0
//
// Earliest completion time: each task, in the order of the list, is assigned to the processor where
// it ends first (HC section 4.7). ECT predicts that end without contention, contention-ECT with it.
// Both schedules are then evaluated with contention, which is what would happen.
//
// A task that is assigned later also slows down those that were assigned before. The paper leaves
// open whether that counts; here the new task's end is taken from the node's whole timeline, and
// its neighbours' delay shows in the ends of the tasks that follow.
//
// Cost: for each task the timeline of each node is computed again, so it grows with the square of
// the tasks of a node.
#pragma once

#include "schedule/contention/timeline.h"

namespace ckpt::schedule {

struct PowerModel {   // watts; an assumption, never a measurement
  double node = 120;  // a node that is switched on
  double core = 25;   // in addition, for a core that runs a task
  double gpu = 70;    // in addition, for a GPU that runs a task
};

struct EctSchedule {
  std::vector<std::vector<Assignment>> assignments;  // by node
  std::vector<std::vector<Span>> spans;              // with contention, by node
  double makespan = 0;                               // seconds
  double processor_seconds = 0;                      // sum of all tasks' run times
};

// GPU tasks need node.gpus > 0. `tasks` must outlive the result.
EctSchedule schedule_ect(const std::vector<ContentionTask> &tasks, const ContentionNode &node,
                         unsigned nodes, Contention predicted);

// Joules; all nodes are switched on until the last task has ended.
double energy_of(const EctSchedule &schedule, const PowerModel &power);

}  // namespace ckpt::schedule
