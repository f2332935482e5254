// SPDX-License-Identifier: Apache-2.0
//
// cuMemAlloc, and the entries that must answer for memory that we serve. The driver answers for all
// other memory.
#include <cstring>

#include "libckpt-cuda/entry/held_calls.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/lifecycle/manager_requests.h"
#include "libckpt-cuda/memory/managed_memory.h"
#include "libckpt-cuda/memory/memory.h"

namespace ckpt::cuda {
namespace {

// The alignment of rows that cudaMallocPitch uses on today's devices, and a multiple of what
// textures require (CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT).
constexpr size_t kPitchBytes = 512;

// cuMemFree waits for all enqueued work, which may use the memory, as the driver's own does.
CUresult wait_for(CUcontext context) {
  CurrentContext current(context);
  return current.status() == CUDA_SUCCESS ? driver().cuCtxSynchronize() : current.status();
}

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
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: put(out, 0u); return true;
    default: return false;
  }
}

// Page-locked host memory has one address for the host and every device, as managed memory has.
CUresult allocate_on_host(CUdeviceptr *out, size_t bytes, unsigned flags) {
  if (out == nullptr || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  void *p = nullptr;
  CUresult e =
      driver().cuMemHostAlloc(&p, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  *out = reinterpret_cast<CUdeviceptr>(p);
  return e;
}

CUresult free_on_host(CUdeviceptr p) {
  CUresult e = driver().cuCtxSynchronize();
  managed_memory().erase(p);
  CUresult freed = driver().cuMemFreeHost(reinterpret_cast<void *>(p));
  return e != CUDA_SUCCESS ? e : freed;
}

// The allocation that begins at `p`; null: `p` is not ours to free.
std::optional<Allocation> allocation_at(CUdeviceptr p) {
  std::optional<Allocation> a = memory().find(p);
  return a && a->base == p ? a : std::nullopt;
}

CUresult freed_by_driver(CUresult e, CUdeviceptr p) {
  if (e == CUDA_SUCCESS) managed_memory().erase(p);
  return e;
}

// Blocks cannot be freed in stream order, so cuMemFreeAsync of our memory waits for the stream.
template <class Fn>
CUresult free_in_order(Fn real, CUresult (*wait)(CUstream), CUdeviceptr p, CUstream stream) {
  if (!allocation_at(p)) return freed_by_driver(real(p, stream), p);
  CUresult e = wait(stream);
  if (e == CUDA_SUCCESS) release_with_manager(p);
  return e;
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

CUresult entry_cuMemFree_v2(CUdeviceptr p) {
  PASS_OR_RETURN(pass);
  if (managed_memory().on_host(p)) return free_on_host(p);
  std::optional<Allocation> a = allocation_at(p);
  if (!a) return freed_by_driver(REAL(cuMemFree_v2)(p), p);
  CUresult e = wait_for(a->context);
  release_with_manager(p);
  return e;
}

CUresult entry_cuMemFreeAsync(CUdeviceptr p, CUstream stream) {
  PASS_OR_RETURN(pass);
  return free_in_order(REAL(cuMemFreeAsync), driver().cuStreamSynchronize, p, stream);
}

CUresult entry_cuMemFreeAsync_ptsz(CUdeviceptr p, CUstream stream) {
  PASS_OR_RETURN(pass);
  return free_in_order(REAL(cuMemFreeAsync_ptsz), driver().cuStreamSynchronize_ptsz, p, stream);
}

CUresult entry_cuMemGetInfo_v2(size_t *free, size_t *total) {
  HOLD_OR_RETURN(held);
  CUresult e = REAL(cuMemGetInfo_v2)(free, total);
  ContextInfo context;
  if (e == CUDA_SUCCESS && current_context(context) == CUDA_SUCCESS)
    *free += memory().spare_bytes(context.device);
  return e;
}

CUresult entry_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr p) {
  HOLD_OR_RETURN(held);
  std::optional<Allocation> a = memory().find(p);
  if (!a) return REAL(cuMemGetAddressRange_v2)(base, bytes, p);
  if (base != nullptr) *base = a->base;
  if (bytes != nullptr) *bytes = a->bytes;
  return CUDA_SUCCESS;
}

CUresult entry_cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr p) {
  HOLD_OR_RETURN(held);
  std::optional<Allocation> a = memory().find(p);
  if (a && out != nullptr && attribute_of(*a, attribute, out)) return CUDA_SUCCESS;
  if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED && out != nullptr && managed_memory().on_host(p))
    return put(out, true);
  return REAL(cuPointerGetAttribute)(out, attribute, p);
}

CUresult entry_cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes, void **out,
                                      CUdeviceptr p) {
  HOLD_OR_RETURN(held);
  CUresult e = REAL(cuPointerGetAttributes)(n, attributes, out, p);
  std::optional<Allocation> a = memory().find(p);
  bool on_host = managed_memory().on_host(p);
  for (unsigned i = 0; e == CUDA_SUCCESS && i < n; i++) {
    if (a) attribute_of(*a, attributes[i], out[i]);
    if (on_host && attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED) put(out[i], true);
  }
  return e;
}

CUresult entry_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
  HOLD_OR_RETURN(held);
  if (memory().find(reinterpret_cast<u64>(address))) return CUDA_ERROR_INVALID_VALUE;
  return REAL(cuMemRetainAllocationHandle)(handle, address);
}

CUresult entry_cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags) {
  PASS_OR_RETURN(pass);
  bool on_host = ManagedMemory::wanted_on_host();
  CUresult e =
      on_host ? allocate_on_host(out, bytes, flags) : REAL(cuMemAllocManaged)(out, bytes, flags);
  if (e == CUDA_SUCCESS) managed_memory().insert(*out, bytes, on_host);
  return e;
}

}  // namespace ckpt::cuda
