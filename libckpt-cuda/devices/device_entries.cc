// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/entry/held_calls.h"

namespace ckpt::cuda {

// cuIpc* are refused (cuda.api), so a program that asks before it uses them gets no for an answer.
// Memory answers for itself (CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE in memory_entries.cc).
CUresult entry_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  HOLD_OR_RETURN(held);
  CUresult e = REAL(cuDeviceGetAttribute)(value, attribute, device);
  if (e == CUDA_SUCCESS && attribute == CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED) *value = 0;
  return e;
}

}  // namespace ckpt::cuda
