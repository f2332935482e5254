// SPDX-License-Identifier: Apache-2.0
//
// The gate of calls that submit work or change device memory, and how an entry passes it. Other
// calls pass the gate of held_calls.h.
#pragma once

#include <atomic>

#include "agent/participant/gate.h"
#include "libckpt-cuda/entry/entries.h"

namespace ckpt::cuda {

// Lives as long as the process.
agent::Gate &gate();

// The devices could not be restored: from then on every call that needs one fails.
extern std::atomic<bool> g_devices_lost;

class Pass {
 public:
  Pass() { gate().enter(); }
  ~Pass() { gate().leave(); }
  Pass(const Pass &) = delete;
  bool lost() const { return g_devices_lost.load(std::memory_order_relaxed); }
};

// The first statement of an entry.
#define PASS_OR_RETURN(pass)    \
  ::ckpt::cuda::Pass pass;      \
  if (pass.lost()) [[unlikely]] \
  return CUDA_ERROR_DEVICE_UNAVAILABLE

}  // namespace ckpt::cuda
