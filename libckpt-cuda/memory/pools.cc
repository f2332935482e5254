// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/pools.h"

#include <algorithm>
#include <iterator>

#include "common/base/rounded_up.h"
#include "libckpt-cuda/memory/addresses.h"
#include "libckpt-cuda/memory/buffer_id.h"
#include "libckpt-cuda/memory/kept_blocks.h"

namespace ckpt::cuda {
namespace {

// Memory of the driver's pool with these properties is like a block. One with a greatest size must
// be the driver's, which counts what is in use.
bool is_like_blocks(const CUmemPoolProps &props) {
  return props.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
         props.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         props.handleTypes == CU_MEM_HANDLE_TYPE_NONE && props.win32SecurityAttributes == nullptr &&
         props.maxSize == 0 && props.usage == 0;
}

std::shared_ptr<Pools::Pool> new_pool(CUmemoryPool handle, CUdevice device) {
  auto pool = std::make_shared<Pools::Pool>();
  pool->handle = handle;
  pool->device = device;
  pool->access.push_back(access_from(device, true));
  return pool;
}

}  // namespace

Pools &pools() {
  static Pools *const kPools = new Pools;
  return *kPools;
}

template <class F>
void Pools::for_each(F f) const {
  for (auto &[handle, pool] : pools_)
    if (pool) f(*pool);
  for (auto &pool : destroyed_) f(*pool);
}

// ---- pools

void Pools::created(CUmemoryPool handle, const CUmemPoolProps &props) {
  std::lock_guard lock(mutex_);
  pools_[handle] = is_like_blocks(props) ? new_pool(handle, props.location.id) : nullptr;
}

// A device's default pool is there without having been created.
std::shared_ptr<Pools::Pool> Pools::default_pool(CUmemoryPool handle) {
  int count = 0;
  driver().cuDeviceGetCount(&count);
  for (CUdevice device = 0; device < count; device++) {
    CUmemoryPool its = nullptr;
    if (driver().cuDeviceGetDefaultMemPool(&its, device) == CUDA_SUCCESS && its == handle)
      return new_pool(handle, device);
  }
  return nullptr;
}

std::shared_ptr<Pools::Pool> Pools::find_pool(CUmemoryPool handle) {
  std::lock_guard lock(mutex_);
  auto known = pools_.find(handle);
  if (known != pools_.end()) return known->second;
  std::shared_ptr<Pool> pool = default_pool(handle);
  if (pool) pools_[handle] = pool;
  return pool;
}

u64 Pools::destroyed(CUmemoryPool handle, const std::shared_ptr<Pool> &pool) {
  Blocks blocks;
  {
    std::lock_guard lock(mutex_);
    auto known = pools_.find(handle);
    if (known != pools_.end() && known->second == pool) pools_.erase(known);
    if (!pool) return 0;
    pool->handle = nullptr;
    destroyed_.push_back(pool);
    collect_destroyed(blocks);
  }
  return drop(blocks);
}

// ---- allocations

u64 Pools::bytes_to_reserve(const Pool &pool, u64 bytes) {
  return rounded_up(bytes, addresses().granularity(pool.device));
}

void Pools::hand_out(const std::shared_ptr<Pool> &pool, const Block &block, u64 bytes, u64 &out) {
  out = block.base;
  live_[out] = {block, bytes, next_buffer_id(), false, pool};
  pool->used += rounded_up(bytes, api::kGrainBytes);
  pool->used_high = std::max(pool->used_high, pool->used);
}

bool Pools::allocate_from_freed(const std::shared_ptr<Pool> &pool, u64 bytes,
                                const StreamPlace &place, u64 &out) {
  std::lock_guard lock(mutex_);
  u64 size = bytes_to_reserve(*pool, bytes);
  Block block;
  if (!pool->freed.take_ready(size, place, pool->opportunistic, block) &&
      !pool->freed.take_waiting(size, place, true, block))
    return false;
  hand_out(pool, block, bytes, out);
  return true;
}

CUresult Pools::make(Pool &pool, u64 bytes, Block &block) {
  block.device = pool.device;
  block.bytes = bytes;
  CUresult e = make_block(block, pool.access);
  if (e != CUDA_SUCCESS) return e;
  bytes_ += bytes;
  pool.reserved += bytes;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  return e;
}

CUresult Pools::allocate(const std::shared_ptr<Pool> &pool, u64 bytes, const StreamPlace &place,
                         u64 &out) {
  if (bytes > kLargestBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(mutex_);
  u64 size = bytes_to_reserve(*pool, bytes);
  Block block;
  CUresult e = make(*pool, size, block);
  if (e == CUDA_ERROR_OUT_OF_MEMORY && pool->internal &&
      pool->freed.take_waiting(size, place, false, block))
    e = CUDA_SUCCESS;
  if (e == CUDA_SUCCESS) hand_out(pool, block, bytes, out);
  return e;
}

std::optional<CUresult> Pools::release(u64 base, const StreamPlace *place, u64 &freed) {
  Blocks blocks;
  {
    std::lock_guard lock(mutex_);
    auto it = live_.find(base);
    if (it == live_.end()) return {};
    std::shared_ptr<Pool> pool = it->second.pool;
    CUresult e = pool->freed.add(it->second.block, place);
    if (e != CUDA_SUCCESS) return e;
    pool->used -= rounded_up(it->second.bytes, api::kGrainBytes);
    live_.erase(it);
    collect(*pool, most_reserved(*pool), blocks);
    collect_destroyed(blocks);
  }
  freed += drop(blocks);
  return CUDA_SUCCESS;
}

std::optional<Pools::Allocation> Pools::find(u64 address) const {
  if (bytes() == 0) return {};
  std::lock_guard lock(mutex_);
  auto it = live_.upper_bound(address);
  if (it == live_.begin()) return {};
  const auto &[base, live] = *std::prev(it);
  if (address - base >= live.bytes) return {};
  return Allocation{base, live.bytes, live.id, live.pool->handle, live.pool->device};
}

bool Pools::exclude(u64 base, bool excluded) {
  std::lock_guard lock(mutex_);
  auto it = live_.find(base);
  if (it == live_.end()) return false;
  it->second.excluded = excluded;
  return true;
}

void Pools::context_destroyed(CUcontext context) {
  std::lock_guard lock(mutex_);
  for_each([&](Pool &pool) { pool.freed.context_destroyed(context); });
}

// ---- blocks without an allocation

u64 Pools::most_reserved(const Pool &pool) const {
  if (pool.handle == nullptr) return 0;
  if (!keeps_blocks_) return pool.threshold;
  size_t total = 0;
  driver().cuDeviceTotalMem_v2(&total, pool.device);
  u64 in_use = pool.reserved - pool.freed.bytes();
  return std::max(pool.threshold, in_use + std::min<u64>(kMostKeptBytes, total / kKeptShare));
}

void Pools::collect(Pool &pool, u64 most, Blocks &out) {
  pool.freed.take_out([&](u64) { return pool.reserved > most; },
                      [&](const Block &b) {
                        pool.reserved -= b.bytes;
                        out.push_back(b);
                      });
}

void Pools::collect_destroyed(Blocks &out) {
  for (auto &pool : destroyed_) collect(*pool, 0, out);
  std::erase_if(destroyed_, [](auto &pool) { return pool->reserved == 0; });
}

u64 Pools::drop_freed() {
  if (bytes() == 0) return 0;
  Blocks blocks;
  {
    std::lock_guard lock(mutex_);
    for_each([&](Pool &pool) { collect(pool, 0, blocks); });
    collect_destroyed(blocks);
  }
  return drop(blocks);
}

u64 Pools::spare_bytes(Pool &pool) {
  u64 threshold = pool.handle != nullptr ? pool.threshold : 0;
  u64 beyond = pool.reserved - std::min(pool.reserved, threshold);
  return beyond > 0 ? std::min(beyond, pool.freed.unused_bytes()) : 0;
}

u64 Pools::spare_bytes(CUdevice device) const {
  if (bytes() == 0) return 0;
  std::lock_guard lock(mutex_);
  u64 sum = 0;
  for_each([&](Pool &pool) { sum += pool.device == device ? spare_bytes(pool) : 0; });
  return sum;
}

// Outside the mutex, because the driver may wait for running work.
u64 Pools::drop(const Blocks &blocks) {
  u64 bytes = 0;
  for (const Block &b : blocks) {
    drop_block(b);
    bytes += b.bytes;
  }
  bytes_ -= bytes;
  return bytes;
}

u64 Pools::trim(Pool &pool, u64 keep, u64 drivers, u64 &freed) {
  Blocks blocks;
  u64 left = 0;
  {
    std::lock_guard lock(mutex_);
    pool.freed.take_out([&](u64 bytes) { return pool.reserved + drivers >= keep + bytes; },
                        [&](const Block &b) {
                          pool.reserved -= b.bytes;
                          blocks.push_back(b);
                        });
    left = pool.reserved;
  }
  freed += drop(blocks);
  return left;
}

// ---- properties

CUresult Pools::set_access(Pool &pool, std::span<const CUmemAccessDesc> access) {
  std::lock_guard lock(mutex_);
  for (const CUmemAccessDesc &a : access) change_access(pool.access, a);
  for (auto &[base, live] : live_) {
    if (live.pool.get() != &pool) continue;
    if (CUresult e = give_access(base, live.block.bytes, access); e != CUDA_SUCCESS) return e;
  }
  return pool.freed.set_access(access);
}

void Pools::set_attribute(Pool &pool, CUmemPool_attribute attribute, const void *value) {
  std::lock_guard lock(mutex_);
  auto flag = [&] { return *static_cast<const int *>(value) != 0; };
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool.threshold = *static_cast<const cuuint64_t *>(value);
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: pool.opportunistic = flag(); break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: pool.internal = flag(); break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: pool.reserved_high = pool.reserved; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: pool.used_high = pool.used; break;
    default: break;
  }
}

// A high-water mark is the sum of both pools' marks, although they may be of different times.
void Pools::add_to_attribute(Pool &pool, CUmemPool_attribute attribute, void *value) const {
  std::lock_guard lock(mutex_);
  auto add = [&](u64 bytes) { *static_cast<cuuint64_t *>(value) += bytes; };
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return add(pool.reserved - spare_bytes(pool));
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return add(pool.reserved_high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return add(pool.used);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return add(pool.used_high);
    default: return;
  }
}

u64 Pools::bytes(CUdevice device) const {
  std::lock_guard lock(mutex_);
  u64 sum = 0;
  for_each([&](const Pool &pool) { sum += pool.device == device ? pool.reserved : 0; });
  return sum;
}

// ---- a checkpoint

std::vector<Contents> Pools::contents() const {
  std::lock_guard lock(mutex_);
  std::vector<Contents> all;
  for (auto &[base, live] : live_)
    if (!live.excluded)
      all.push_back({fmt::format("pool-{:x}", base), base, rounded_up(live.bytes, api::kGrainBytes),
                     nullptr, live.block.device, base});
  return all;
}

std::vector<KeyedPhysical> Pools::physical() const {
  std::lock_guard lock(mutex_);
  std::vector<KeyedPhysical> all;
  for (auto &[base, live] : live_) all.push_back({base, live.block.bytes, live.block.physical});
  return all;
}

// All work has ended, so no block without an allocation is used.
Result<> Pools::unmap_all() {
  std::lock_guard lock(mutex_);
  std::vector<Block *> all;
  for (auto &[base, live] : live_) all.push_back(&live.block);
  for_each([&](Pool &pool) { std::ranges::copy(pool.freed.all(), std::back_inserter(all)); });
  std::ranges::sort(all, {}, &Block::base);
  CKPT_CHECK(unmap_blocks(all));
  drop_unmapped();
  return {};
}

// Gives back the addresses of blocks without an allocation and without memory.
void Pools::drop_unmapped() {
  Blocks blocks;
  for_each([&](Pool &pool) {
    u64 before = pool.freed.bytes();
    pool.freed.take_out_unmapped(blocks);
    pool.reserved -= before - pool.freed.bytes();
  });
  drop(blocks);
}

// After an unmap_all() that failed, blocks without an allocation may have no memory.
Result<> Pools::remap_all() {
  std::lock_guard lock(mutex_);
  drop_unmapped();
  for (auto &[base, live] : live_) {
    if (live.block.mapped) continue;
    if (CUresult e = map_block(live.block, live.pool->access); e != CUDA_SUCCESS)
      return fail("cannot map {} bytes of a pool's memory at {:#x} again: {}", live.block.bytes,
                  base, error_name(e));
  }
  return {};
}

}  // namespace ckpt::cuda
