// SPDX-License-Identifier: Apache-2.0
//
// What was measured on a node, for the contention model: its bandwidths as ckpt-node-bench prints
// them, and tasks that ran there alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "schedule/contention/node.h"

namespace ckpt::schedule {

// Comma-separated values under a header: name, seconds, memory_gb, host_to_device_gb,
// device_to_host_gb. A task with copies uses a GPU. Each error names its line.
Result<std::vector<ContentionTask>> read_tasks_csv(std::string_view text);
// The same, with the header. Names contain no commas and no line breaks.
std::string tasks_csv(const std::vector<ContentionTask> &tasks);

}  // namespace ckpt::schedule
