// SPDX-License-Identifier: Apache-2.0
//
// Whether the driver of this process is away: locked or checkpointed by cuCheckpointProcess*.
// NVIDIA's NVML then waits, in the process itself, for a lock that the driver holds (seen with
// driver 580.159.04). Its libcuda.so.1 and libnvidia-ml.so.1 share that lock, and so must ours.
//
// The two libraries may be loaded with RTLD_LOCAL, and ckpt loads the driver by a path of its own,
// so neither finds the other's symbols. An inline variable with default visibility has the binding
// STB_GNU_UNIQUE, of which the loader keeps one in the whole process (glibc, dl-lookup.c).
#pragma once

#include <atomic>

namespace ckpt::softcuda {

[[gnu::visibility("default")]] inline std::atomic<bool> g_driver_away{false};

}  // namespace ckpt::softcuda
