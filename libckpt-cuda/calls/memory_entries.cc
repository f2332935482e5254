// SPDX-License-Identifier: Apache-2.0
//
// cuMemAlloc, and the entries that must answer for memory that we serve. The driver answers for all
// other memory.
#include <cstring>

#include "libckpt-cuda/calls/manager_requests.h"
#include "libckpt-cuda/entry/held_calls.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/memory/host_memory.h"
#include "libckpt-cuda/memory/ipc_memory.h"
#include "libckpt-cuda/memory/managed_memory.h"
#include "libckpt-cuda/memory/memory.h"
#include "libckpt-cuda/memory/paired_memory.h"
#include "libckpt-cuda/memory/pools.h"

namespace ckpt::cuda {
namespace {

// The alignment of rows that cudaMallocPitch uses on today's devices, and a multiple of what
// textures require (CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT).
constexpr size_t kPitchBytes = 512;

CUresult allocate(CUdeviceptr *out, size_t bytes) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  ContextInfo context;
  if (CUresult e = current_context(context); e != CUDA_SUCCESS) return e;
  u64 base = 0;
  CUresult e = allocate_with_manager(context, bytes, base);
  if (e == CUDA_SUCCESS) *out = base;
  return e;
}

template <class T>
CUresult put(void *out, T value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

// Answers the attributes for which the driver would describe our block instead of the allocation.
// False: the driver's answer is right.
bool attribute_of(const Allocation &a, CUpointer_attribute attribute, void *out) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: put(out, a.context); return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: put(out, a.id); return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: put(out, a.base); return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: put(out, a.bytes); return true;
    // Memory of cuMemAlloc (ipc_memory.h): of a context, and in a block.
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      put(out, unsigned{memory().find(a.base) && reason_against_sharing() == nullptr});
      return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: put(out, u64{0}); return true;
    default: return false;
  }
}

// Memory of a pool belongs to no context.
bool attribute_of(const Pools::Allocation &a, CUpointer_attribute attribute, void *out) {
  if (attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) {
    put(out, a.pool);
    return true;
  }
  return attribute_of({a.base, a.bytes, a.base, a.id, nullptr, a.device, false}, attribute, out);
}

// The driver knows it as memory of a device alone.
bool managed_attribute_of(const Allocation &a, CUdeviceptr p, CUpointer_attribute attribute,
                          void *out) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: put(out, true); return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: put(out, p); return true;
    default: return attribute_of(a, attribute, out);
  }
}

// True: `p` lies in memory of ours, and the driver would answer wrongly.
bool answers(CUdeviceptr p, CUpointer_attribute attribute, void *out) {
  if (std::optional<Allocation> a = memory().find(p)) return attribute_of(*a, attribute, out);
  if (std::optional<Allocation> a = ipc_memory().find(p)) return attribute_of(*a, attribute, out);
  if (std::optional<Allocation> a = paired_memory().find(p))
    return managed_attribute_of(*a, p, attribute, out);
  if (auto a = pools().find(p)) return attribute_of(*a, attribute, out);
  if (attribute != CU_POINTER_ATTRIBUTE_IS_MANAGED || !managed_memory().on_host(p)) return false;
  put(out, true);
  return true;
}

bool find_range(CUdeviceptr p, u64 &base, u64 &bytes) {
  std::optional<Allocation> a = memory().find(p);
  if (!a) a = paired_memory().find(p);
  if (!a) a = ipc_memory().find(p);
  if (a) {
    base = a->base;
    bytes = a->bytes;
    return true;
  }
  std::optional<Pools::Allocation> of_pool = pools().find(p);
  if (!of_pool) return false;
  base = of_pool->base;
  bytes = of_pool->bytes;
  return true;
}

}  // namespace

CUresult entry_cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
  PASS_OR_RETURN(pass);
  return allocate(out, bytes);
}

CUresult entry_cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                                  unsigned int element) {
  PASS_OR_RETURN(pass);
  bool valid = element == 4 || element == 8 || element == 16;
  if (pitch == nullptr || !valid || width > SIZE_MAX - kPitchBytes) return CUDA_ERROR_INVALID_VALUE;
  size_t row = rounded_up(width, kPitchBytes);
  if (row != 0 && height > SIZE_MAX / row) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult e = allocate(out, row * height);
  if (e == CUDA_SUCCESS) *pitch = row;
  return e;
}

CUresult entry_cuMemGetInfo_v2(size_t *free, size_t *total) {
  HOLD_OR_RETURN(held);
  CUresult e = REAL(cuMemGetInfo_v2)(free, total);
  ContextInfo context;
  if (e == CUDA_SUCCESS && current_context(context) == CUDA_SUCCESS)
    *free += memory().spare_bytes(context.device) + paired_blocks().spare_bytes(context.device) +
             pools().spare_bytes(context.device);
  return e;
}

CUresult entry_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr p) {
  HOLD_OR_RETURN(held);
  u64 ours_base = 0, ours_bytes = 0;
  if (!find_range(p, ours_base, ours_bytes)) return REAL(cuMemGetAddressRange_v2)(base, bytes, p);
  if (base != nullptr) *base = ours_base;
  if (bytes != nullptr) *bytes = ours_bytes;
  return CUDA_SUCCESS;
}

CUresult entry_cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr p) {
  HOLD_OR_RETURN(held);
  if (out != nullptr && answers(p, attribute, out)) return CUDA_SUCCESS;
  return REAL(cuPointerGetAttribute)(out, attribute, p);
}

CUresult entry_cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes, void **out,
                                      CUdeviceptr p) {
  HOLD_OR_RETURN(held);
  CUresult e = REAL(cuPointerGetAttributes)(n, attributes, out, p);
  for (unsigned i = 0; e == CUDA_SUCCESS && i < n; i++) answers(p, attributes[i], out[i]);
  return e;
}

}  // namespace ckpt::cuda
