// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/calls/copied_bytes.h"

#include "libckpt-cuda/memory/memory.h"
#include "libckpt-cuda/memory/paired_memory.h"
#include "libckpt-cuda/memory/pools.h"

namespace ckpt::cuda {
// The driver is asked about an address that is not in memory of ours: a variable, memory of a pool,
// or host memory, which a driver need not know.
bool is_device_memory(CUdeviceptr p) {
  if (memory().find(p) || paired_memory().find(p) || pools().find(p)) return true;
  unsigned type = 0;
  auto attribute = REAL(cuPointerGetAttribute);
  CUresult e = attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
  return e == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE;
}

}  // namespace ckpt::cuda
