// SPDX-License-Identifier: Apache-2.0
//
// The three sets of tasks of HC section 4.7, in random order.
#pragma once

#include <vector>

#include "common/base/bytes.h"
#include "schedule/contention/node.h"

namespace ckpt::schedule {

enum class TaskSet : u8 {
  Equal,         // set 1: twelve tasks in equal shares
  WithoutCbmat,  // set 2: the other eleven
  MuchCbmat,     // set 3: 31.25 % cbmat, the rest in equal shares
};

// The paper speaks of twelve tasks and measures fifteen ([?21]). Here they are the seven GPU tasks,
// and the five CPU tasks that move the most memory. It does not say how many there were either.
// Shares are exact where `count` allows it (a multiple of 12, 11 or 16).
std::vector<ContentionTask> task_set(TaskSet set, size_t count, u64 seed);

}  // namespace ckpt::schedule
