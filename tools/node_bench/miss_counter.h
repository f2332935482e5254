// SPDX-License-Identifier: Apache-2.0
//
// The processors' own count of last-level cache misses (perf_event_open(2)), of this thread and of
// all processes that it starts from now on. Virtual machines often have no such counters.
#pragma once

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

inline constexpr u64 kCacheLine = 64;  // bytes that a miss moves

class MissCounter {
 public:
  static Result<MissCounter> start();
  // Includes a process only once it has ended.
  Result<u64> misses() const;

 private:
  explicit MissCounter(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// The count for the whole time, if the counter ran only for a part of it because others needed it.
// `enabled`, `running`: nanoseconds.
u64 extrapolated(u64 count, u64 enabled, u64 running);

}  // namespace ckpt::tools
