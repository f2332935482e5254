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

// What every call returns at once instead of reaching the driver; CUDA_SUCCESS: calls reach it.
//   CUDA_ERROR_DEVICE_UNAVAILABLE   the devices could not be restored
//   CUDA_ERROR_NOT_INITIALIZED      this is a forked child, in which CUDA cannot be used
extern std::atomic<CUresult> g_refusal;

class Pass {
 public:
  Pass() { gate().enter(); }
  ~Pass() { gate().leave(); }
  Pass(const Pass &) = delete;
  CUresult refusal() const { return g_refusal.load(std::memory_order_relaxed); }
};

// The first statement of an entry.
#define PASS_OR_RETURN(pass)                       \
  ::ckpt::cuda::Pass pass;                         \
  if (pass.refusal() != CUDA_SUCCESS) [[unlikely]] \
  return pass.refusal()

}  // namespace ckpt::cuda
