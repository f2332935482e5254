// SPDX-License-Identifier: Apache-2.0
#include "schedule/contention/node.h"

namespace ckpt::schedule {

// HC section 4.3. The paper divides copies by the capacity of the link, which one unpinned copy
// does not reach; the rate of a single copy is the time that the task was measured with.
StageShares shares_of(const ContentionTask &task, const Bandwidths &node) {
  StageShares shares;
  if (task.seconds <= 0) {
    shares.of = {0, 0, 0, 1};
    return shares;
  }
  std::array<double, 3> seconds = {task.memory_gb / node.core, task.host_to_device_gb / node.copy,
                                   task.device_to_host_gb / node.copy};
  double sum = seconds[0] + seconds[1] + seconds[2];
  shares.scaled = sum > task.seconds;
  double whole = shares.scaled ? sum : task.seconds;
  for (size_t i = 0; i < seconds.size(); i++) shares.of[i] = seconds[i] / whole;
  shares.of[3] = shares.scaled ? 0 : 1 - sum / whole;
  return shares;
}

}  // namespace ckpt::schedule
