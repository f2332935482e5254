// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered memory.
#pragma once

#include "softcuda/driver/process.h"

namespace ckpt::softcuda::driver {

// A null `pool` means the device's current pool.
CUresult allocate_from(CUmemoryPool pool, Context &c, size_t bytes, CUdeviceptr *out);
// Frees memory of a pool at once.
void release_to_pool(CUdeviceptr p);
CUresult free_in_order(CUdeviceptr p, Stream &s);
// Whether a device may read, and also write, the allocation of a pool that begins at `base`.
bool pool_access(u64 base, int device, bool &writable);

}  // namespace ckpt::softcuda::driver
