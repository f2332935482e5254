// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/bytes.h"
#include "common/managed/messages.h"

namespace ckpt::manager {

using GpuIndex = int;
inline constexpr GpuIndex kNoGpu = -1;

// Sizes are in bytes.
struct Gpu {
  std::string uuid;
  GpuIndex index = kNoGpu;
  u64 total = 0;
  u64 free = 0;           // last measured; if not `measured`: capacity minus unmanaged use
  bool dying = false;     // a managed program that has ended still has memory there
  bool foreign = false;   // a process that is not managed has memory there
  u64 context_bytes = 0;  // cost of a context, measured here or on another GPU; 0: not measured
  bool context_known = false;  // measured on this GPU
  u64 occupancy = 1;           // changes whenever a program comes, leaves or creates a context
  u32 apis = managed::kCuda;   // the APIs that it serves
  // False: the driver reports no free memory, so it is computed from what the programs report. The
  // cost of a context is then taken to be 0.
  bool measured = true;
};

inline bool serves(const Gpu &gpu, u32 apis) { return (apis & ~gpu.apis) == 0; }

}  // namespace ckpt::manager
