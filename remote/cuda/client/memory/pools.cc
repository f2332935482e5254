// SPDX-License-Identifier: Apache-2.0
//
// What an attribute asks of a pool has no effect; the program gets back what it has set. A pool
// keeps no memory that was freed, so it has reserved what it uses.
#include "remote/cuda/client/memory/pools.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "remote/cuda/client/memory/memory.h"

namespace ckpt::remote::cuda {
namespace {

struct Use {
  u64 now = 0, used_high = 0, reserved_high = 0;
};
struct Taken {
  u64 pool, bytes;
  u64 id;  // of the allocation
};
struct PoolTable {
  std::mutex mutex;
  std::map<std::pair<u64, CUmemPool_attribute>, u64> all;  // by pool
  std::map<u64, Use> use;                                  // by pool
  std::map<u64, Taken> taken;                              // by address
  std::map<CUdevice, CUmemoryPool> current;
};
PoolTable &pool_table() {
  static PoolTable *const kTable = new PoolTable;
  return *kTable;
}

bool is_pool(CUmemoryPool pool) { return ledger().lives(number_of(pool)); }

bool is_switch(CUmemPool_attribute a) {
  return a == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
         a == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
         a == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

// The bytes of a value; 0: an attribute that is not carried.
size_t bytes_of(CUmemPool_attribute a) {
  if (is_switch(a)) return sizeof(int);
  return a == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? sizeof(cuuint64_t) : 0;
}

CUresult refuse_attribute() {
  return refuse("an attribute of a memory pool", "such attributes are not carried to other nodes");
}

// Memory also ends with its context.
void forget_ended(PoolTable &t) {
  std::erase_if(t.taken, [&](const auto &entry) {
    const auto &[base, taken] = entry;
    std::optional<Allocation> a = memory().find(base);
    bool ended = !a || a->id != taken.id;
    if (ended) t.use[taken.pool].now -= taken.bytes;
    return ended;
  });
}

void forget(PoolTable &t, u64 base) {
  auto found = t.taken.find(base);
  if (found == t.taken.end()) return;
  t.use[found->second.pool].now -= found->second.bytes;
  t.taken.erase(found);
}

// Of bytes; nullptr: another attribute.
u64 *find_use(Use &use, CUmemPool_attribute a) {
  switch (a) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return &use.now;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return &use.reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return &use.used_high;
    default: return nullptr;
  }
}

// Only a high mark can be set, to zero: it then begins again.
CUresult reset_use(Use &use, CUmemPool_attribute a, const void *value) {
  u64 *high = find_use(use, a), wanted = 0;
  std::memcpy(&wanted, value, sizeof wanted);
  if (high == &use.now || wanted != 0) return CUDA_ERROR_INVALID_VALUE;
  *high = use.now;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult current_pool(CUdevice device, CUmemoryPool &out) {
  std::lock_guard lock(pool_table().mutex);
  CUmemoryPool &known = pool_table().current[device];
  CUresult e = known && is_pool(known) ? CUDA_SUCCESS : entry_cuDeviceGetMemPool(&known, device);
  out = known;
  return e;
}

CUresult entry_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  constexpr size_t kPool = 1;  // the argument that is set
  CUresult e =
      Set<line_cuDeviceSetMemPool, PFN_cuDeviceSetMemPool_v11020, kPool>::call(device, pool);
  if (e != CUDA_SUCCESS) return e;
  std::lock_guard lock(pool_table().mutex);
  pool_table().current[device] = pool;
  return e;
}

void allocated_from(CUmemoryPool pool, u64 base) {
  std::optional<Allocation> a = memory().find(base);
  if (!a) return;
  u64 bytes = Memory::reserved(a->bytes);
  std::lock_guard lock(pool_table().mutex);
  forget(pool_table(), base);
  pool_table().taken[base] = {number_of(pool), bytes, a->id};
  Use &use = pool_table().use[number_of(pool)];
  use.now += bytes;
  use.used_high = std::max(use.used_high, use.now);
  use.reserved_high = std::max(use.reserved_high, use.now);
}

void freed_to_pool(u64 base) {
  std::lock_guard lock(pool_table().mutex);
  forget(pool_table(), base);
}

CUresult entry_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute a, void *value) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!is_pool(pool) || !value) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(pool_table().mutex);
  forget_ended(pool_table());
  Use &use = pool_table().use[number_of(pool)];
  if (find_use(use, a)) return reset_use(use, a, value);
  size_t bytes = bytes_of(a);
  if (bytes == 0) return refuse_attribute();
  u64 known = 0;
  std::memcpy(&known, value, bytes);
  pool_table().all[{number_of(pool), a}] = known;
  return CUDA_SUCCESS;
}

CUresult entry_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute a, void *value) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!is_pool(pool) || !value) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(pool_table().mutex);
  forget_ended(pool_table());
  if (const u64 *use = find_use(pool_table().use[number_of(pool)], a)) {
    std::memcpy(value, use, sizeof *use);
    return CUDA_SUCCESS;
  }
  size_t bytes = bytes_of(a);
  if (bytes == 0) return refuse_attribute();
  auto found = pool_table().all.find({number_of(pool), a});
  u64 known = found != pool_table().all.end() ? found->second : u64{is_switch(a)};
  std::memcpy(value, &known, bytes);
  return CUDA_SUCCESS;
}

CUresult entry_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool,
                                  CUmemLocation *location) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!flags || !location || !is_pool(pool)) return CUDA_ERROR_INVALID_VALUE;
  CUdevice own = 0;
  if (CUresult e = entry_cuCtxGetDevice(&own); e != CUDA_SUCCESS) return e;
  bool can = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == own;
  *flags = can ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult entry_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *all, size_t n) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!is_pool(pool) || (!all && n > 0)) return CUDA_ERROR_INVALID_VALUE;
  CUdevice own = 0;
  if (CUresult e = entry_cuCtxGetDevice(&own); e != CUDA_SUCCESS) return e;
  for (size_t i = 0; i < n; i++)
    if (all[i].location.id != own || all[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return refuse("access to a pool by another device",
                    "devices cannot reach each other's memory");
  return CUDA_SUCCESS;
}

}  // namespace ckpt::remote::cuda
