// SPDX-License-Identifier: Apache-2.0
//
// cuMemPool*, cuDeviceGetMemPool and the like.
#include "softcuda/driver/graphs/graph_memory.h"
#include "softcuda/driver/memory/free_in_order.h"
#include "softcuda/driver/state/pools.h"

namespace ckpt::softcuda::driver {
namespace {

CUresult set_access(Pool &pool, const CUmemAccessDesc &d) {
  REQUIRE(d.location.type == CU_MEM_LOCATION_TYPE_DEVICE && device_at(d.location.id) != nullptr,
          CUDA_ERROR_INVALID_DEVICE);
  u32 bit = 1u << d.location.id;
  bool write = d.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  bool read = write || d.flags == CU_MEM_ACCESS_FLAGS_PROT_READ;
  // A pool's own device always has access.
  REQUIRE(write || d.location.id != pool.device, CUDA_ERROR_INVALID_VALUE);
  read ? pool.readers |= bit : pool.readers &= ~bit;
  write ? pool.writers |= bit : pool.writers &= ~bit;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult free_in_order(CUdeviceptr p, Stream &s) {
  if (p == 0 || free_graph_memory(p)) return CUDA_SUCCESS;
  std::optional<Allocation> a = process().memory->find(p);
  REQUIRE(a && a->base == p && (a->kind == MemoryKind::Pool || a->kind == MemoryKind::Device),
          CUDA_ERROR_INVALID_VALUE);
  s.context->submit(s, [p] { release_to_pool(p); });
  return CUDA_SUCCESS;
}

}  // namespace ckpt::softcuda::driver

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device) {
  CALL_INITIALISED();
  Device *d = device_at(device);
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_DEVICE);
  *out = reinterpret_cast<CUmemoryPool>(default_pool(*d));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device) {
  CHECK_CU(cuDeviceGetDefaultMemPool(out, device));
  *out = reinterpret_cast<CUmemoryPool>(device_at(device)->pool);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle) {
  CALL_INITIALISED();
  Device *d = device_at(device);
  Pool *pool = pools().get(handle);
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_DEVICE);
  REQUIRE(pool != nullptr && pool->device == device, CUDA_ERROR_INVALID_VALUE);
  default_pool(*d);
  d->pool = pool;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props) {
  CALL_INITIALISED();
  REQUIRE(out != nullptr && props != nullptr && props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED,
          CUDA_ERROR_INVALID_VALUE);
  REQUIRE(props->handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE(props->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
              device_at(props->location.id) != nullptr,
          CUDA_ERROR_INVALID_VALUE);
  Pool *pool = new Pool;
  pool->device = props->location.id;
  *out = reinterpret_cast<CUmemoryPool>(pools().add(pool));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  CALL_INITIALISED();
  Pool *pool = pools().get(handle);
  REQUIRE(pool != nullptr && !pool->is_default, CUDA_ERROR_INVALID_VALUE);
  pools().remove(pool);
  Device *d = device_at(pool->device);
  if (d->pool == pool) d->pool = d->default_pool;
  // The object is not deleted: pool_of() may still refer to it.
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *access,
                                         size_t n) {
  CALL_INITIALISED();
  Pool *pool = pools().get(handle);
  REQUIRE(pool != nullptr && (access != nullptr || n == 0), CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < n; ++i) CHECK_CU(set_access(*pool, access[i]));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle,
                                         CUmemLocation *location) {
  CALL_INITIALISED();
  Pool *pool = pools().get(handle);
  REQUIRE(flags != nullptr && pool != nullptr && location != nullptr &&
              location->type == CU_MEM_LOCATION_TYPE_DEVICE && device_at(location->id) != nullptr,
          CUDA_ERROR_INVALID_VALUE);
  *flags = access_of(*pool, location->id);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t) {
  CALL_INITIALISED();
  return pools().holds(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTCUDA_API CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                            void *value) {
  CALL_INITIALISED();
  Pool *pool = pools().get(handle);
  REQUIRE(pool != nullptr && value != nullptr, CUDA_ERROR_INVALID_VALUE);
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    pool->threshold = *static_cast<cuuint64_t *>(value);
  else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    pool->used_high = pool->used.load();
  else
    pool->flags[attribute] = *static_cast<int *>(value);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                            void *value) {
  CALL_INITIALISED();
  Pool *pool = pools().get(handle);
  REQUIRE(pool != nullptr && value != nullptr, CUDA_ERROR_INVALID_VALUE);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *static_cast<cuuint64_t *>(value) = pool->threshold;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *static_cast<cuuint64_t *>(value) = pool->used; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *static_cast<cuuint64_t *>(value) = pool->used_high; break;
    default:
      *static_cast<int *>(value) = pool->flags.contains(attribute) ? pool->flags[attribute] : 1;
  }
  return CUDA_SUCCESS;
}
