// SPDX-License-Identifier: Apache-2.0
//
// Attributes of memory pools. All memory is of the arena, so what an attribute asks of a pool has
// no effect; the program gets back what it has set.
#include <cstring>
#include <map>

#include "remote/cuda/client/client.h"

namespace ckpt::remote::cuda {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::pair<u64, CUmemPool_attribute>, u64> all;  // by pool
};
Table &table() {
  static Table *const kTable = new Table;
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
  return refuse("an attribute of a memory pool", "how much a pool uses is not counted");
}

}  // namespace

CUresult entry_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute a, void *value) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!is_pool(pool) || !value) return CUDA_ERROR_INVALID_VALUE;
  size_t bytes = bytes_of(a);
  if (bytes == 0) return refuse_attribute();
  u64 known = 0;
  std::memcpy(&known, value, bytes);
  std::lock_guard lock(table().mutex);
  table().all[{number_of(pool), a}] = known;
  return CUDA_SUCCESS;
}

CUresult entry_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute a, void *value) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!is_pool(pool) || !value) return CUDA_ERROR_INVALID_VALUE;
  size_t bytes = bytes_of(a);
  if (bytes == 0) return refuse_attribute();
  std::lock_guard lock(table().mutex);
  auto found = table().all.find({number_of(pool), a});
  u64 known = found != table().all.end() ? found->second : u64{is_switch(a)};
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
