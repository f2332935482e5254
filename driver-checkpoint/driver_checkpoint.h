// SPDX-License-Identifier: Apache-2.0
//
// The driver's own checkpoint: cuCheckpointProcess*, called by a process on itself.
//
// The problem. Most of what a CUDA program has on a device cannot be read and rebuilt from outside:
// contexts, modules, streams, graphs, arrays, the device's heap, page tables. The driver alone can
// save it, and since driver 570 it does.
//
// How it works. The driver of a process is in one of these states:
//
//   RUNNING ── Lock ──► LOCKED ── Checkpoint ──► CHECKPOINTED
//      ▲                  │ ▲                         │
//      └───── Unlock ─────┘ └──────── Restore ────────┘        FAILED: an attempt has lost the
//      state
//
// Lock waits until submitted work has ended and blocks new calls. Checkpoint copies all device
// memory into memory of the process and releases the devices: no descriptor or mapping of a device
// remains, so CRIU can dump the process. Restore does the reverse, on the same devices or, since
// driver 580, on others of the same chip type; the arguments then map the UUID of each GPU of the
// machine to another one (libckpt-cuda/devices/device_map.h).
//
// What it keeps: all objects and handles, memory of pools, arrays, device variables, and the
// contents of memory of cuMemCreate that is mapped. What it refuses or loses: managed memory,
// memory shared by cuIpc* (blockers.h; docs/CUDA.md has the whole list).
//
// Device memory of cuMemAlloc, usually by far the largest part, does not go this way. We save it
// into the image directly and unmap it beforehand (memory/memory.h), because the driver's copies
// would need as much host memory again, and CRIU would write them as part of the process.
//
// Several processes. While a process is locked or checkpointed, calls for another one that depends
// on it (NCCL) have been seen to hang (NVIDIA/cuda-checkpoint#30). So a tool takes all processes of
// a program to LOCKED before it takes the first one to CHECKPOINTED.
//
// Precautions. Each call has a deadline (late_call.h). The addresses that the driver unmaps are
// kept free (holes.h). A Restore that ran out of memory, or does not return, is final: the process
// has lost its devices.
//
// Cost. The time to copy what is left on the devices, plus the driver's own start and stop.
//
// Source. CUDA driver API, section "CUDA Checkpointing"; https://github.com/NVIDIA/cuda-checkpoint.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace ckpt::cuda {

using DeviceMap = std::vector<std::pair<std::string, std::string>>;  // UUIDs: from, to

// Why this driver has no checkpoint; empty: it has.
std::string no_driver_checkpoint();
// From RUNNING to LOCKED. All contexts must be idle, and no thread may be inside the driver.
Result<> driver_lock();
// From LOCKED to CHECKPOINTED.
Result<> driver_checkpoint();
// To RUNNING, from whichever state these have reached. `map` is a complete one; empty:
// the same devices.
Result<> driver_restore(const DeviceMap &map);
// Its Restore is next; false also where the driver does not tell.
bool driver_is_checkpointed();
// A driver_restore() has failed, and none can succeed any more.
bool driver_lost();

}  // namespace ckpt::cuda
