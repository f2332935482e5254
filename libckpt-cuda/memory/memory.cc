// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/memory.h"

#include <algorithm>

#include "common/base/log.h"
#include "libckpt-cuda/memory/unmap_ranges.h"

namespace ckpt::cuda {
namespace {

CUresult give_access(u64 base, u64 bytes, CUdevice device, bool allowed) {
  CUmemAccessDesc access{};
  access.location = memory_of(device).location;
  access.flags = allowed ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return driver().cuMemSetAccess(base, bytes, &access, 1);
}

// Memory that InfiniBand and other devices can register (GPUDirect RDMA), where the device can give
// such memory: memory of cuMemCreate has that property only on request, that of a driver's
// cuMemAlloc always (NVIDIA/gdrcopy#257, openucx/ucx#10007).
CUmemAllocationProp memory_for_block(CUdevice device) {
  CUmemAllocationProp prop = memory_of(device);
  int capable = 0;
  driver().cuDeviceGetAttribute(
      &capable, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device);
  prop.allocFlags.gpuDirectRDMACapable = capable != 0;
  return prop;
}

}  // namespace

Memory &memory() {
  static Memory *const kMemory = new Memory;
  return *kMemory;
}

// ---- blocks

CUresult Memory::map(Block &b) {
  CUmemAllocationProp prop = memory_for_block(b.context.device);
  CUresult e = driver().cuMemCreate(&b.physical, b.bytes, &prop, 0);
  if (e != CUDA_SUCCESS) return e;
  e = driver().cuMemMap(b.base, b.bytes, 0, b.physical, 0);
  b.mapped = e == CUDA_SUCCESS;
  for (CUdevice d : devices_with_access(b.context))
    if (e == CUDA_SUCCESS) e = give_access(b.base, b.bytes, d, true);
  if (e != CUDA_SUCCESS) unmap(b);
  return e;
}

// Where the driver does not unmap it, the block keeps its memory.
CUresult Memory::unmap(Block &b) {
  CUresult e = b.mapped ? driver().cuMemUnmap(b.base, b.bytes) : CUDA_SUCCESS;
  if (e != CUDA_SUCCESS) return e;
  if (b.physical != 0) driver().cuMemRelease(b.physical);
  b.mapped = false;
  b.physical = 0;
  return CUDA_SUCCESS;
}

CUresult Memory::new_block(const ContextInfo &context, u64 bytes, bool small, Block *&out) {
  auto b = std::make_unique<Block>();
  b->bytes = bytes;
  b->context = context;
  b->small = small;
  CUresult e = addresses_.take(context.device, bytes, b->base);
  if (e != CUDA_SUCCESS) return e;
  e = map(*b);
  if (e == CUDA_ERROR_OUT_OF_MEMORY && drop_kept_blocks()) e = map(*b);
  if (e != CUDA_SUCCESS) {
    addresses_.give(b->base, bytes);
    return e;
  }
  out = b.get();
  block_bytes_ += bytes;
  blocks_[b->base] = std::move(b);
  return CUDA_SUCCESS;
}

void Memory::drop_block(Block &b) {
  if (b.small) set_largest_free(b, 0);
  kept_.erase(b.base);
  // Addresses that are still mapped can serve no other block.
  if (CUresult e = unmap(b); e == CUDA_SUCCESS)
    addresses_.give(b.base, b.bytes);
  else
    log::warn("{} bytes of device memory are not freed: cuMemUnmap fails with {}", b.bytes,
              error_name(e));
  block_bytes_ -= b.bytes;
  blocks_.erase(b.base);
}

void Memory::set_largest_free(Block &b, u64 largest) {
  if (largest == b.largest_free) return;
  Roomy &roomy = roomy_[b.context.handle];
  roomy.erase({b.largest_free, b.base});
  b.largest_free = largest;
  if (largest > 0) roomy.insert({largest, b.base});
}

// ---- allocations

bool Memory::is_small(const ContextInfo &context, u64 bytes) {
  return bytes <= addresses_.granularity(context.device) / 2;
}

u64 Memory::bytes_to_reserve(const ContextInfo &context, u64 bytes) {
  std::lock_guard lock(mutex_);
  return rounded_up(bytes, addresses_.granularity(context.device));
}

bool Memory::allocate_from_blocks(const ContextInfo &context, u64 bytes, u64 &out) {
  std::lock_guard lock(mutex_);
  Block *block = cut_from_blocks(context, bytes, out);
  if (block == nullptr) return false;
  record(*block, out, bytes);
  return true;
}

CUresult Memory::allocate(const ContextInfo &context, u64 bytes, u64 &out) {
  std::lock_guard lock(mutex_);
  if (bytes > kLargestBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  Block *block = cut_from_blocks(context, bytes, out);
  if (block == nullptr) return allocate_in_new_block(context, bytes, out);
  record(*block, out, bytes);
  return CUDA_SUCCESS;
}

// Null: no block has room.
Memory::Block *Memory::cut_from_blocks(const ContextInfo &context, u64 bytes, u64 &out) {
  if (!is_small(context, bytes)) return nullptr;
  u64 grains = rounded_up(bytes, kGrainBytes);
  Roomy &roomy = roomy_[context.handle];
  for (auto it = roomy.lower_bound({grains, 0}); it != roomy.end();
       it = roomy.lower_bound({grains, 0})) {
    Block &b = *blocks_[it->second];
    if (std::optional<u64> at = b.free.take(grains, kGrainBytes)) {
      out = *at;
      return &b;
    }
    set_largest_free(b, grains - kGrainBytes);  // the bound was too high
  }
  return nullptr;
}

CUresult Memory::allocate_in_new_block(const ContextInfo &context, u64 bytes, u64 &out) {
  bool small = is_small(context, bytes);
  u64 size = rounded_up(bytes, addresses_.granularity(context.device));
  Block *block = nullptr;
  CUresult e = CUDA_SUCCESS;
  if (small || !reuse_kept(context, size, block)) e = new_block(context, size, small, block);
  if (e != CUDA_SUCCESS) return e;
  out = block->base;
  if (small) {
    u64 grains = rounded_up(bytes, kGrainBytes);
    block->free = Spans(block->base, size);
    block->free.take(grains, kGrainBytes);
    set_largest_free(*block, size - grains);
  }
  record(*block, out, bytes);
  return CUDA_SUCCESS;
}

void Memory::record(Block &block, u64 base, u64 bytes) {
  block.live++;
  const ContextInfo &c = block.context;
  allocations_[base] = {base, bytes, block.base, next_id_++, c.handle, c.device, false};
}

bool Memory::has_other_spare(const Block &b) {
  auto spare = blocks_.find(spare_[b.context.handle]);
  return spare != blocks_.end() && spare->second.get() != &b && spare->second->live == 0;
}

void Memory::free_piece(const Allocation &a) {
  Block &b = *blocks_[a.block];
  b.live--;
  if (!b.small) return keep_or_drop(b);
  b.free.give(a.base, rounded_up(a.bytes, kGrainBytes));
  set_largest_free(b, b.bytes);
  if (b.live > 0) return;
  if (has_other_spare(b)) return drop_block(b);
  spare_[b.context.handle] = b.base;
}

// ---- blocks that stay mapped without an allocation

bool Memory::reuse_kept(const ContextInfo &context, u64 bytes, Block *&out) {
  std::optional<u64> base = kept_.take(context.handle, bytes);
  if (base) out = blocks_.at(*base).get();
  return base.has_value();
}

u64 Memory::most_kept(CUdevice device) {
  auto [it, first] = most_kept_.try_emplace(device, 0);
  size_t total = 0;
  if (first && driver().cuDeviceTotalMem_v2(&total, device) == CUDA_SUCCESS)
    it->second = std::min(kMostKeptBytes, total / kKeptShare);
  return it->second;
}

void Memory::keep_or_drop(Block &b) {
  CUdevice device = b.context.device;
  u64 most = keeps_blocks_ ? most_kept(device) : 0;
  if (b.bytes > most) return drop_block(b);
  kept_.add({b.base, b.bytes, b.context.handle, device});
  while (kept_.bytes(device) > most) drop_block(*blocks_.at(*kept_.oldest(device)));
}

bool Memory::drop_kept_blocks() {
  bool any = false;
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    Block &b = *it++->second;
    if (b.live > 0) continue;
    drop_block(b);
    any = true;
  }
  return any;
}

bool Memory::drop_kept() {
  std::lock_guard lock(mutex_);
  return drop_kept_blocks();
}

u64 Memory::release(u64 base) {
  std::lock_guard lock(mutex_);
  u64 before = block_bytes_;
  auto it = allocations_.find(base);
  if (it == allocations_.end()) return 0;
  free_piece(it->second);
  allocations_.erase(it);
  return before - block_bytes_;
}

void Memory::release_context(CUcontext context) {
  std::lock_guard lock(mutex_);
  std::erase_if(allocations_, [&](auto &p) { return p.second.context == context; });
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    Block &b = *it++->second;
    if (b.context.handle == context) drop_block(b);
  }
  roomy_.erase(context);
  spare_.erase(context);
}

std::optional<Allocation> Memory::find(u64 address) const {
  std::lock_guard lock(mutex_);
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return {};
  const Allocation &a = std::prev(it)->second;
  if (address - a.base >= a.bytes) return {};
  return a;
}

CUresult Memory::set_access(CUcontext owner, CUdevice device, bool allowed) {
  std::lock_guard lock(mutex_);
  for (auto &[base, b] : blocks_) {
    if (b->context.handle != owner || b->context.device == device) continue;
    if (CUresult e = give_access(base, b->bytes, device, allowed); e != CUDA_SUCCESS) return e;
  }
  return CUDA_SUCCESS;
}

bool Memory::exclude(u64 base, bool excluded) {
  std::lock_guard lock(mutex_);
  auto it = allocations_.find(base);
  if (it == allocations_.end()) return false;
  it->second.excluded = excluded;
  return true;
}

// ---- sizes

u64 Memory::spare_bytes(CUdevice device) const {
  std::lock_guard lock(mutex_);
  u64 bytes = 0;
  for (auto &[base, b] : blocks_)
    if (b->live == 0 && b->context.device == device) bytes += b->bytes;
  return bytes;
}

u64 Memory::block_bytes(CUdevice device) const {
  std::lock_guard lock(mutex_);
  u64 bytes = 0;
  for (auto &[base, b] : blocks_)
    if (b->context.device == device) bytes += b->bytes;
  return bytes;
}

// ---- a checkpoint

// A block is saved up to the end of its last allocation that is not excluded.
std::vector<Contents> Memory::contents() const {
  std::lock_guard lock(mutex_);
  std::map<u64, u64> saved;  // bytes of each block, by its base
  for (auto &[base, a] : allocations_)
    if (!a.excluded) saved[a.block] = std::max(saved[a.block], base + a.bytes - a.block);
  std::vector<Contents> all;
  for (auto &[base, bytes] : saved)
    all.push_back({fmt::format("mem-{:x}", base), base, rounded_up(bytes, kGrainBytes),
                   blocks_.at(base)->context.handle});
  return all;
}

// A failure is left to unmap(), block by block.
void Memory::unmap_range(u64 begin, u64 end) {
  if (driver().cuMemUnmap(begin, end - begin) != CUDA_SUCCESS) return;
  for (auto it = blocks_.lower_bound(begin); it != blocks_.end() && it->first < end; ++it)
    it->second->mapped = false;
}

void Memory::unmap_adjacent() {
  std::vector<AddressRange> mapped;
  for (auto &[base, b] : blocks_)
    if (b->mapped) mapped.push_back({base, base + b->bytes});
  auto window_of = [this](u64 at) { return addresses_.window_of(at); };
  for (const AddressRange &r : unmap_ranges(mapped, window_of)) unmap_range(r.begin, r.end);
}

Result<> Memory::unmap_all() {
  std::lock_guard lock(mutex_);
  unmap_adjacent();
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    Block &b = *it++->second;
    if (CUresult e = unmap(b); e != CUDA_SUCCESS)
      return fail("cannot unmap {} bytes of device memory at {:#x}: {}", b.bytes, b.base,
                  error_name(e));
    if (b.live == 0) drop_block(b);
  }
  return {};
}

Result<> Memory::remap_all() {
  std::lock_guard lock(mutex_);
  for (auto &[base, b] : blocks_) {
    if (b->mapped) continue;
    if (CUresult e = map(*b); e != CUDA_SUCCESS)
      return fail("cannot map {} bytes of device memory at {:#x} again: {}", b->bytes, base,
                  error_name(e));
  }
  return {};
}

}  // namespace ckpt::cuda
