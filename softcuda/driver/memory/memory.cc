// SPDX-License-Identifier: Apache-2.0
//
// cuMemAlloc and related calls, pinned memory, pointer attributes.
#include "softcuda/device/memory.h"

#include <cstring>

#include "common/base/rounded_up.h"
#include "softcuda/driver/graphs/graph_memory.h"
#include "softcuda/driver/memory/vmm.h"
#include "softcuda/driver/state/pools.h"

using namespace ckpt;
using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

namespace {

constexpr size_t kPitchAlign = 512;

u32 index_of(const Context *c) { return static_cast<u32>(c->device->index); }

CUresult host_memory(Context *c, size_t bytes, unsigned flags, void **out) {
  REQUIRE(out != nullptr && bytes > 0, CUDA_ERROR_INVALID_VALUE);
  std::optional<Allocation> a =
      process().memory->allocate_host(bytes, MemoryKind::Pinned, index_of(c), flags, c);
  REQUIRE(a, CUDA_ERROR_OUT_OF_MEMORY);
  *out = reinterpret_cast<void *>(a->base);
  return CUDA_SUCCESS;
}

CUresult state_of(const Context *c) { return c == nullptr ? CUDA_SUCCESS : c->error.load(); }

// Waits for running work, which may use the memory of the host at `p`. `current` may be null.
void wait_for_users(Context *current, const void *p) {
  std::optional<Allocation> a = process().memory->find(reinterpret_cast<u64>(p));
  Context *owner = a ? static_cast<Context *>(a->context) : nullptr;
  if (current != nullptr) current->synchronize();
  if (owner != current && process().contexts.holds(owner)) owner->synchronize();
}

bool host_side(const Allocation &a) {
  return a.kind == MemoryKind::Pinned || a.kind == MemoryKind::Registered ||
         a.kind == MemoryKind::Managed;
}

template <class T>
CUresult put(void *out, T value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult attribute_of(const Allocation &a, CUdeviceptr p, CUpointer_attribute attribute,
                      void *out) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return put(out, a.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(out, host_side(a) && a.kind != MemoryKind::Managed ? CU_MEMORYTYPE_HOST
                                                                    : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return put(out, p);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      put(out, host_side(a) ? p : 0);
      return host_side(a) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return put(out, 0u);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return put(out, a.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(out, static_cast<u8>(a.kind == MemoryKind::Managed));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return put(out, static_cast<int>(a.device));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put(out, a.kind == MemoryKind::Device ? 1u : 0u);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return put(out, a.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return put(out, a.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED: return put(out, u8{1});
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put(out, a.kind == MemoryKind::Mapping ? handle_types(a.physical) : u64{0});
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put(out, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return put(out, a.kind == MemoryKind::Mapping ? is_rdma_capable(a.physical)
                                                    : a.kind == MemoryKind::Device);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return put(out, u64{0});
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

SOFTCUDA_API CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr && bytes > 0, CUDA_ERROR_INVALID_VALUE);
  std::optional<Allocation> a =
      process().memory->allocate(index_of(call.context), bytes, MemoryKind::Device, call.context);
  REQUIRE(a, CUDA_ERROR_OUT_OF_MEMORY);
  *out = a->base;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width,
                                         size_t height, unsigned int element) {
  REQUIRE(out != nullptr && pitch != nullptr && width > 0 && height > 0, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(element == 4 || element == 8 || element == 16, CUDA_ERROR_INVALID_VALUE);
  *pitch = rounded_up(width, kPitchAlign);
  return cuMemAlloc_v2(out, *pitch * height);
}

// Waits for running work, which may use the memory.
SOFTCUDA_API CUresult cuMemFree_v2(CUdeviceptr p) {
  CALL_WITH_ANY_CONTEXT();
  if (p == 0) return CUDA_SUCCESS;
  std::optional<Allocation> a = process().memory->find(p);
  REQUIRE(a && a->base == p, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(a->kind == MemoryKind::Device || a->kind == MemoryKind::Managed ||
              a->kind == MemoryKind::Pool,
          CUDA_ERROR_INVALID_VALUE);
  Context *owner = static_cast<Context *>(a->context);
  if (call.context != nullptr) call.context->synchronize();
  if (owner != call.context && process().contexts.holds(owner)) owner->synchronize();
  if (a->kind == MemoryKind::Pool) {
    if (!free_graph_memory(p)) release_to_pool(p);
    return state_of(call.context);
  }
  REQUIRE(process().memory->release(p, a->kind), CUDA_ERROR_INVALID_VALUE);
  return state_of(call.context);
}

SOFTCUDA_API CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr && bytes > 0, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST, CUDA_ERROR_INVALID_VALUE);
  std::optional<Allocation> a = process().memory->allocate_host(
      bytes, MemoryKind::Managed, index_of(call.context), flags, call.context);
  REQUIRE(a, CUDA_ERROR_OUT_OF_MEMORY);
  *out = a->base;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  CALL_WITH_CONTEXT();
  REQUIRE(free != nullptr && total != nullptr, CUDA_ERROR_INVALID_VALUE);
  Result<broker::DeviceUse> use = client().use(index_of(call.context));
  REQUIRE(use, CUDA_ERROR_UNKNOWN);
  *free = use->free_bytes;
  *total = use->total_bytes;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr p) {
  CALL_WITH_CONTEXT();
  std::optional<Allocation> a = process().memory->find(p);
  REQUIRE(a, CUDA_ERROR_NOT_FOUND);
  if (base != nullptr) *base = a->base;
  if (bytes != nullptr) *bytes = a->bytes;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemAllocHost_v2(void **out, size_t bytes) {
  CALL_WITH_CONTEXT();
  return host_memory(call.context, bytes, 0, out);
}

SOFTCUDA_API CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags) {
  CALL_WITH_CONTEXT();
  constexpr unsigned kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  REQUIRE((flags & ~kKnown) == 0, CUDA_ERROR_INVALID_VALUE);
  return host_memory(call.context, bytes, flags, out);
}

SOFTCUDA_API CUresult cuMemFreeHost(void *p) {
  CALL_WITH_ANY_CONTEXT();
  if (p == nullptr) return CUDA_SUCCESS;
  wait_for_users(call.context, p);
  REQUIRE(process().memory->release(reinterpret_cast<u64>(p), MemoryKind::Pinned),
          CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags) {
  CALL_WITH_CONTEXT();
  constexpr unsigned kKnown =
      CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
  REQUIRE(p != nullptr && bytes > 0 && (flags & ~kKnown) == 0, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(process().memory->register_host(reinterpret_cast<u64>(p), bytes, flags, call.context),
          CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemHostUnregister(void *p) {
  CALL_WITH_ANY_CONTEXT();
  wait_for_users(call.context, p);
  REQUIRE(process().memory->release(reinterpret_cast<u64>(p), MemoryKind::Registered),
          CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned int flags) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
  std::optional<Allocation> a = process().memory->find(reinterpret_cast<u64>(p));
  REQUIRE(a && host_side(*a), CUDA_ERROR_INVALID_VALUE);
  *out = reinterpret_cast<u64>(p);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemHostGetFlags(unsigned int *flags, void *p) {
  CALL_WITH_CONTEXT();
  REQUIRE(flags != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::optional<Allocation> a = process().memory->find(reinterpret_cast<u64>(p));
  REQUIRE(a && a->kind == MemoryKind::Pinned, CUDA_ERROR_INVALID_VALUE);
  *flags = a->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute,
                                            CUdeviceptr p) {
  CALL_INITIALISED();
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::optional<Allocation> a = process().memory->find(p);
  REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
  return attribute_of(*a, p, attribute, out);
}

// For an unknown pointer all attributes are zero, which is not an error.
SOFTCUDA_API CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes,
                                             void **out, CUdeviceptr p) {
  CALL_INITIALISED();
  REQUIRE(attributes != nullptr && out != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::optional<Allocation> a = process().memory->find(p);
  for (unsigned i = 0; i < n; ++i) {
    bool wide = attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT ||
                attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
                attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
                attributes[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID;
    std::memset(out[i], 0, wide ? 8 : attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ? 1 : 4);
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) put(out[i], -2);
    if (a) (void)attribute_of(*a, p, attributes[i], out[i]);
  }
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                            CUdeviceptr p) {
  CALL_INITIALISED();
  REQUIRE(value != nullptr && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS &&
              process().memory->find(p),
          CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

// Advice is not stored, so the attributes have the values that they have without any.
SOFTCUDA_API CUresult cuMemRangeGetAttribute(void *out, size_t bytes,
                                             CUmem_range_attribute attribute, CUdeviceptr p,
                                             size_t count) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr && bytes >= 4 && bytes % 4 == 0 && count > 0, CUDA_ERROR_INVALID_VALUE);
  std::optional<Allocation> a = process().memory->find(p);
  REQUIRE(a && a->kind == MemoryKind::Managed && p + count <= a->base + a->reserved,
          CUDA_ERROR_INVALID_VALUE);
  std::memset(out, 0, bytes);
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: return put(out, CU_DEVICE_INVALID);
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      for (size_t i = 0; i < bytes / 4; ++i)
        put(static_cast<char *>(out) + 4 * i, CU_DEVICE_INVALID);
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

SOFTCUDA_API CUresult cuMemRangeGetAttributes(void **out, size_t *bytes,
                                              CUmem_range_attribute *attributes, size_t n,
                                              CUdeviceptr p, size_t count) {
  REQUIRE(out != nullptr && bytes != nullptr && attributes != nullptr && n > 0,
          CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < n; ++i)
    CHECK_CU(cuMemRangeGetAttribute(out[i], bytes[i], attributes[i], p, count));
  return CUDA_SUCCESS;
}

// All memory of a software device is equally fast, so advice is checked and has no effect.
SOFTCUDA_API CUresult cuMemAdvise_v2(CUdeviceptr p, size_t bytes, CUmem_advise, CUmemLocation) {
  CALL_WITH_CONTEXT();
  std::optional<Allocation> a = process().memory->find(p);
  REQUIRE(a && a->kind == MemoryKind::Managed && bytes <= a->reserved, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}
