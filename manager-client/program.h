// SPDX-License-Identifier: Apache-2.0
//
// The properties of this program that are reported to the Manager. The client's mutex guards them.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/managed/messages.h"

namespace ckpt::manager_client {

// Device memory, in bytes.
class MemoryUse {
 public:
  u64 variables = 0;  // device variables of all loaded code

  u64 used() const { return by_api_[managed::kCuda] + by_api_[managed::kOpenCl]; }
  u64 used_by(managed::Api api) const { return by_api_[api]; }
  void set(managed::Api api, u64 used) { by_api_[api] = used; }
  void clear() { by_api_ = {}; }
  // The largest sum of memory and variables at a call of note_peak().
  u64 peak() const { return peak_; }
  void note_peak();

 private:
  std::array<u64, managed::kAllApis> by_api_{};  // by managed::Api
  u64 peak_ = 0;
};

// A device context and the memory that it costs, which the Manager measures.
struct ContextCheck {
  static constexpr Clock::time_point kNever = Clock::time_point::max();
  bool made = false;
  std::optional<u64> cost;               // bytes
  Clock::time_point ask_again = kNever;  // the driver did not show the new context yet
};

struct Program {
  u32 apis = 0;     // those that the Manager knows of: a sum of managed::Api
  std::string gpu;  // the UUID of the assigned GPU; empty: none, or no Manager
  bool exclusive = false;
  u32 memory_holder = 0;  // the pid of the process that holds the memory, if it is another one
  MemoryUse memory;
  ContextCheck context;
  std::optional<u64> workload;  // workload_hash(), once it was computed
  Clock::time_point started = Clock::now();

  // Whether the Manager manages the use of this API. Until the first connect() that is CUDA.
  bool manages(managed::Api api) const { return (managed_apis() & api) != 0; }
  u32 managed_apis() const { return apis != 0 ? apis : u32{managed::kCuda}; }
};

// A hash of the executable's path and the arguments: the key of a workload profile.
u64 workload_hash();
// CKPT_PRIORITY.
i32 priority();

}  // namespace ckpt::manager_client
