// SPDX-License-Identifier: Apache-2.0
#include "common/base/rounded_up.h"
#include "remote/cuda/client/copies/copies.h"
#include "remote/cuda/client/graphs/capture.h"
#include "remote/cuda/client/graphs/graph_memory.h"
#include "remote/cuda/client/memory/host_memory.h"
#include "remote/cuda/client/memory/pools.h"
#include "remote/cuda/client/memory/shared_memory.h"

namespace ckpt::remote::cuda {
namespace {

// As libckpt-cuda has it: what textures require on today's devices.
constexpr size_t kPitchBytes = 512;

CUresult allocate(CUdeviceptr *out, u64 bytes) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  u64 base = 0;
  CUresult e = memory().allocate(current_context(), bytes, base);
  if (e == CUDA_SUCCESS) *out = base;
  return e;
}

// Variables end with their code, and the device's side of page-locked memory with the host's.
bool can_be_freed(const Allocation &a, u64 p) {
  bool own = a.sharing == Sharing::None || a.sharing == Sharing::Managed;
  return own && a.owner == 0 && a.base == p;
}

template <class T>
CUresult put(void *out, T value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult device_attribute(const Allocation &a, CUpointer_attribute what, u64 p, void *out) {
  switch (what) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return put(out, a.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return put(out, unsigned{CU_MEMORYTYPE_DEVICE});
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return put(out, p);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return put(out, a.id);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return put(out, int{a.device});
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return put(out, a.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return put(out, a.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED: return put(out, 1u);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return put(out, unsigned{a.sharing == Sharing::Managed});
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return a.sharing == Sharing::Managed ? put(out, p) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: return put(out, 0u);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult host_attribute(const HostRange &r, CUpointer_attribute what, u64 p, void *out) {
  switch (what) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return put(out, r.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return put(out, unsigned{CU_MEMORYTYPE_HOST});
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: return put(out, p);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return r.device ? put(out, r.device + (p - r.base)) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return put(out, r.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return put(out, r.bytes);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(out, int{ledger().device_of(r.context).value_or(0)});
    case CU_POINTER_ATTRIBUTE_MAPPED: return put(out, unsigned{r.device != 0});
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: return put(out, 0u);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

CUresult settle(u64 context) {
  if (!ledger().lives(context)) return CUDA_SUCCESS;  // its work has ended with it
  if (can_wait_there() && !kernel_failed()) {
    link().send(number(Op::Settle), context, {});
    return CUDA_SUCCESS;
  }
  Bytes none;
  return note_error(link().ask(number(Op::Settle), context, {}, &none));
}

CUresult entry_cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) { return allocate(out, bytes); }

CUresult entry_cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                                  unsigned element) {
  bool valid = element == 4 || element == 8 || element == 16;
  if (!pitch || !valid || width > SIZE_MAX - kPitchBytes) return CUDA_ERROR_INVALID_VALUE;
  u64 row = rounded_up(width, kPitchBytes), all = 0;
  if (__builtin_mul_overflow(row, height, &all)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult e = allocate(out, all);
  if (e == CUDA_SUCCESS) *pitch = row;
  return e;
}

CUresult entry_cuMemFree_v2(CUdeviceptr p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (p == 0) return CUDA_SUCCESS;
  std::optional<Allocation> a = memory().find(p);
  if (!a || !can_be_freed(*a, p)) return CUDA_ERROR_INVALID_VALUE;
  CUresult e = settle(a->context);
  if (free_graph_memory(p)) return e;
  shared_memory().end(p);
  freed_to_pool(p);
  return memory().release(p) ? e : CUDA_ERROR_INVALID_VALUE;
}

CUresult entry_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  std::optional<Allocation> a = memory().find(p);
  if (!a) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = a->base;
  if (bytes) *bytes = a->bytes;
  return CUDA_SUCCESS;
}

// Stream-ordered memory is of the arena, too, so that it can move to another device with its
// addresses. It is there at once, and given back when the stream has got so far.
// `pool`: nullptr for the current one of the device.
static CUresult allocate_in_order(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                  CUstream stream) {
  u64 number = number_of(stream);
  if (number > kSpecialStreams && !ledger().lives(number)) return CUDA_ERROR_INVALID_HANDLE;
  if (is_capturing(stream)) return capture_allocation(stream, bytes, out);
  CUresult e = allocate(out, bytes);
  if (e != CUDA_SUCCESS) return e;
  if (!pool) e = current_pool(memory().find(*out)->device, pool);
  if (e == CUDA_SUCCESS)
    allocated_from(pool, *out);
  else
    memory().release(*out);
  return e;
}

CUresult entry_cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
  return allocate_in_order(out, bytes, nullptr, stream);
}

CUresult entry_cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                       CUstream stream) {
  if (!ledger().lives(number_of(pool))) return CUDA_ERROR_INVALID_VALUE;
  return allocate_in_order(out, bytes, pool, stream);
}

CUresult entry_cuMemFreeAsync(CUdeviceptr p, CUstream stream) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (is_capturing(stream)) return capture_free(stream, p);
  std::optional<Allocation> a = memory().find(p);
  if (!a || !can_be_freed(*a, p)) return CUDA_ERROR_INVALID_VALUE;
  CUresult e = entry_cuStreamSynchronize(stream);
  if (free_graph_memory(p)) return e;
  shared_memory().end(p);
  freed_to_pool(p);
  memory().release(p);
  return e;
}

CUresult entry_cuPointerGetAttribute(void *out, CUpointer_attribute what, CUdeviceptr p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (std::optional<HostRange> r = host_memory().find(p)) return host_attribute(*r, what, p, out);
  if (std::optional<Allocation> a = memory().find(p)) return device_attribute(*a, what, p, out);
  return CUDA_ERROR_INVALID_VALUE;
}

// Copies that wait are always complete when they return.
CUresult entry_cuPointerSetAttribute(const void *value, CUpointer_attribute what, CUdeviceptr p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  bool known = memory().find(p) || host_memory().find(p);
  bool valid = value && what == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && known;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// An attribute that a pointer does not have is 0 (cuPointerGetAttributes' documentation).
CUresult entry_cuPointerGetAttributes(unsigned n, CUpointer_attribute *what, void **out,
                                      CUdeviceptr p) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!what || !out) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < n; i++) {
    bool wide =
        what[i] == CU_POINTER_ATTRIBUTE_CONTEXT || what[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
        what[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER || what[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
        what[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
        what[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
    if (entry_cuPointerGetAttribute(out[i], what[i], p) == CUDA_SUCCESS) continue;
    if (what[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
      put(out[i], int{CU_DEVICE_INVALID});
    else if (wide)
      put(out[i], u64{0});
    else
      put(out[i], 0u);
  }
  return CUDA_SUCCESS;
}

}  // namespace ckpt::remote::cuda
