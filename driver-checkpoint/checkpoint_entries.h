// SPDX-License-Identifier: Apache-2.0
//
// The entries of the driver whose state of this process is checkpointed (driver_checkpoint.h). Two
// libraries have a driver in the process: the one in front of the local driver, and the forwarding
// one after a move to the own node (remote/cuda/client/link/own_driver.h).
#pragma once

// Whichever header is included first: each form of an entry has its own symbol.
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL 1
#endif
#include <cuda.h>
#include <cudaTypedefs.h>

namespace ckpt::cuda {

// Those that an older driver does not have are null: the cuCheckpointProcess* came with CUDA 12.8.
#define CKPT_CHECKPOINT_ENTRIES(X)                                           \
  X(cuGetErrorName, PFN_cuGetErrorName_v6000)                                \
  X(cuCheckpointProcessGetState, PFN_cuCheckpointProcessGetState_v12080)     \
  X(cuCheckpointProcessLock, PFN_cuCheckpointProcessLock_v12080)             \
  X(cuCheckpointProcessCheckpoint, PFN_cuCheckpointProcessCheckpoint_v12080) \
  X(cuCheckpointProcessRestore, PFN_cuCheckpointProcessRestore_v12080)       \
  X(cuCheckpointProcessUnlock, PFN_cuCheckpointProcessUnlock_v12080)

struct CheckpointEntries {
#define X(symbol, type) type symbol = nullptr;
  CKPT_CHECKPOINT_ENTRIES(X)
#undef X
  const char *path = "";  // of the driver's file
};

// Set once, when the driver is loaded. Never destroyed.
inline CheckpointEntries &checkpoint_entries() {
  static constinit CheckpointEntries entries;
  return entries;
}

}  // namespace ckpt::cuda
