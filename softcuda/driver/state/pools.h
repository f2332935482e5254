// SPDX-License-Identifier: Apache-2.0
//
// Memory pools. A pool of a real device keeps freed memory up to its release threshold. Here memory
// is released as soon as the stream reaches the free.
#pragma once

#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {

struct Pool {
  int device = 0;
  std::atomic<u32> readers{0}, writers{0};  // devices, one bit each; its own always may
  bool is_default = false;
  u64 threshold = 0;
  std::map<int, int> flags;  // attributes about the reuse of memory, which have no effect
  std::atomic<u64> used{0};
  std::atomic<u64> used_high{0};
};

Handles<Pool> &pools();
Pool *default_pool(Device &d);
CUmemAccess_flags access_of(const Pool &pool, int device);

// A null `pool` means the device's current pool.
CUresult allocate_from(CUmemoryPool pool, Context &c, size_t bytes, CUdeviceptr *out);
// Frees memory of a pool at once.
void release_to_pool(CUdeviceptr p);
// Whether a device may read, and also write, the allocation of a pool that begins at `base`.
bool pool_access(u64 base, int device, bool &writable);

}  // namespace ckpt::softcuda::driver
