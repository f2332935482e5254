// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/state/pools.h"

namespace ckpt::softcuda::driver {
namespace {

// The pool of each allocation, by address.
std::mutex pool_of_mutex;
std::map<u64, Pool *> &pool_of() {
  static auto *const kPoolOf = new std::map<u64, Pool *>;
  return *kPoolOf;
}

// The pool that cuMemAllocAsync takes memory from.
Pool *current_pool(Device &d) {
  default_pool(d);  // sets d.pool on first use
  return d.pool;
}

void record_allocation(u64 p, u64 bytes, Pool *pool) {
  std::lock_guard lock(pool_of_mutex);
  pool_of()[p] = pool;
  u64 used = pool->used += bytes;
  if (used > pool->used_high) pool->used_high = used;
}

void forget_allocation(u64 p, u64 bytes) {
  std::lock_guard lock(pool_of_mutex);
  auto it = pool_of().find(p);
  if (it == pool_of().end()) return;
  it->second->used -= bytes;
  pool_of().erase(it);
}

}  // namespace

Handles<Pool> &pools() {
  static Handles<Pool> *const kPools = new Handles<Pool>;
  return *kPools;
}

Pool *default_pool(Device &d) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (d.default_pool == nullptr) {
    d.default_pool = pools().add(new Pool);
    d.default_pool->device = d.index;
    d.default_pool->is_default = true;
    d.pool = d.default_pool;
  }
  return d.default_pool;
}

CUmemAccess_flags access_of(const Pool &pool, int device) {
  u32 bit = 1u << device;
  if (device == pool.device || (pool.writers & bit) != 0) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return (pool.readers & bit) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

bool pool_access(u64 base, int device, bool &writable) {
  std::lock_guard lock(pool_of_mutex);
  auto it = pool_of().find(base);
  if (it == pool_of().end()) return false;
  CUmemAccess_flags access = access_of(*it->second, device);
  writable = access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

CUresult allocate_from(CUmemoryPool handle, Context &c, size_t bytes, CUdeviceptr *out) {
  Device &d = *c.device;
  Pool *pool = handle == nullptr ? current_pool(d) : pools().get(handle);
  REQUIRE(pool != nullptr, CUDA_ERROR_INVALID_VALUE);
  auto take = [&] {
    return process().memory->allocate(static_cast<u32>(pool->device), bytes, MemoryKind::Pool, &c);
  };
  std::optional<Allocation> a = take();
  // Pending frees of other streams may be enough.
  if (!a) {
    c.synchronize();
    a = take();
  }
  REQUIRE(a, CUDA_ERROR_OUT_OF_MEMORY);
  record_allocation(a->base, a->reserved, pool);
  *out = a->base;
  return CUDA_SUCCESS;
}

void release_to_pool(CUdeviceptr p) {
  std::optional<Allocation> a = process().memory->find(p);
  if (!a || a->base != p) return;
  forget_allocation(p, a->reserved);
  process().memory->release(p, a->kind);
}

}  // namespace ckpt::softcuda::driver
