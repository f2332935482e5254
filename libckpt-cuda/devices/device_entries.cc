// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/entry/held_calls.h"
#include "libckpt-cuda/events/interprocess_events.h"
#include "libckpt-cuda/memory/managed_memory.h"

namespace ckpt::cuda {
namespace {

// A program that asks before it uses cuIpc*EventHandle gets no for an answer where they are
// refused. Memory answers for itself (CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE in
// memory_entries.cc). Managed memory of ours belongs to one side at a time, and where a device
// could use all memory of the host, both sides could use managed memory at once (CUDA programming
// guide, "Unified Memory").
bool is_denied(CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED: return reason_against_events(device) != nullptr;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
      return ManagedMemory::wanted_kept();
    default: return false;
  }
}

}  // namespace

CUresult entry_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  HOLD_OR_RETURN(held);
  CUresult e = REAL(cuDeviceGetAttribute)(value, attribute, device);
  if (e == CUDA_SUCCESS && is_denied(attribute, device)) *value = 0;
  return e;
}

}  // namespace ckpt::cuda
