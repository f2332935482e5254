// SPDX-License-Identifier: Apache-2.0
//
// All device memory that this library serves, whatever the program asked for it by: cuMemAlloc
// (memory.h), cuMemAllocManaged (paired_memory.h), pools (pools.h), cuMemCreate (program_memory.h).
#pragma once

#include <vector>

#include "common/base/result.h"
#include "libckpt-cuda/memory/physical.h"

namespace ckpt::cuda {

// Bytes of device memory, mapped or not.
u64 served_bytes();
u64 served_bytes(CUdevice device);
// The sum of what a checkpoint saves, in bytes, with each region rounded up to `align`.
u64 bytes_to_save(u64 align);

// All physical memory with contents.
std::vector<KeyedPhysical> served_physical();

// Memory is short: frees what is kept without an allocation. False: there was none.
bool drop_kept_memory();
// From now on nothing is kept: another one accounts for device memory.
void keep_no_memory();

// For a checkpoint: gives all physical memory back, and makes it anew at the same addresses.
// Between the two nothing else may be called. After a failure the rest can be done again.
Result<> unmap_served_memory();
Result<> remap_served_memory();

}  // namespace ckpt::cuda
