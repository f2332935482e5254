// SPDX-License-Identifier: Apache-2.0
#include "manager-client/progress_report.h"

#include <algorithm>

namespace ckpt::manager_client {

void ProgressReport::start(std::chrono::milliseconds interval) {
  interval_ = interval;
  next_ = Clock::now();
}

std::optional<managed::to_manager::Progress> ProgressReport::make(
    const agent::Participant::Calls &calls, i64 now_ns) {
  next_ = Clock::now() + interval_;
  calls_ += static_cast<u32>(calls.count - std::exchange(last_count_, calls.count));
  if (calls.last == 0) return std::nullopt;
  i64 idle_us = std::clamp<i64>((now_ns - calls.last) / 1000, 0, ~u32{0});
  return managed::to_manager::Progress{calls_, static_cast<u32>(idle_us), calls.copied};
}

}  // namespace ckpt::manager_client
