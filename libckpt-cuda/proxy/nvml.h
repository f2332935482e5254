// SPDX-License-Identifier: Apache-2.0
//
// NVML, in a process that has no CUDA state to checkpoint. In one whose driver is checkpointed,
// nvmlInit waits for a lock that the driver holds (driver 580.159.04), so ckpt never calls NVML in
// a program. The program asks through its session's keeper (devices/outside_gpus.h).
#pragma once

#include <vector>

#include "libckpt-cuda/devices/node_gpus.h"

namespace ckpt::cuda {

// Of all GPUs; empty: not known.
std::vector<GpuMemory> ask_nvml();
// NVML stays initialised, so that ask_nvml() takes less time.
void keep_nvml();

}  // namespace ckpt::cuda
