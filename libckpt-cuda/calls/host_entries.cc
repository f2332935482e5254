// SPDX-License-Identifier: Apache-2.0
//
// Page-locked host memory is the driver's; these entries only note where it is.
#include "libckpt-cuda/entry/held_calls.h"
#include "libckpt-cuda/memory/host_memory.h"

namespace ckpt::cuda {
namespace {

CUresult allocated(CUresult e, void **p, size_t bytes) {
  if (e == CUDA_SUCCESS) note_host_memory(*p, bytes);
  return e;
}

}  // namespace

CUresult entry_cuMemHostAlloc(void **p, size_t bytes, unsigned int flags) {
  HOLD_OR_RETURN(held);
  return allocated(REAL(cuMemHostAlloc)(p, bytes, flags), p, bytes);
}

CUresult entry_cuMemAllocHost_v2(void **p, size_t bytes) {
  HOLD_OR_RETURN(held);
  return allocated(REAL(cuMemAllocHost_v2)(p, bytes), p, bytes);
}

// Forgotten first: another thread may get the same addresses as soon as they are free.
CUresult entry_cuMemFreeHost(void *p) {
  HOLD_OR_RETURN(held);
  forget_host_memory(p);
  return REAL(cuMemFreeHost)(p);
}

}  // namespace ckpt::cuda
