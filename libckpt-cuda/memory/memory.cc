// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/memory.h"

#include <algorithm>

#include "libckpt-cuda/memory/addresses.h"
#include "libckpt-cuda/memory/buffer_id.h"
#include "libckpt-cuda/memory/ipc_memory.h"

namespace ckpt::cuda {

Memory &memory() {
  static Memory *const kMemory = new Memory;
  return *kMemory;
}

// ---- blocks

AccessList Memory::access_to(const Owned &b) const {
  AccessList list;
  bool every = reach_ == Reach::EveryDevice;
  for (CUdevice d : every ? devices_that_reach(b.device) : devices_with_access(b.context))
    list.push_back(access_from(d, true));
  return list;
}

CUresult Memory::reach_from(CUdevice device) {
  std::lock_guard lock(mutex_);
  for (auto &[base, b] : blocks_) {
    if (b->device == device || !reaches(device, b->device)) continue;
    CUmemAccessDesc access = access_from(device, true);
    if (CUresult e = give_access(base, b->bytes, {&access, 1}); e != CUDA_SUCCESS) return e;
  }
  return CUDA_SUCCESS;
}

CUresult Memory::new_block(const ContextInfo &context, u64 bytes, bool small, Owned *&out) {
  auto b = std::make_unique<Owned>();
  b->bytes = bytes;
  b->device = context.device;
  b->context = context;
  b->small = small;
  CUresult e = make_block(*b, access_to(*b));
  if (e == CUDA_ERROR_OUT_OF_MEMORY && drop_kept_blocks()) e = make_block(*b, access_to(*b));
  if (e != CUDA_SUCCESS) return e;
  out = b.get();
  block_bytes_ += bytes;
  blocks_[b->base] = std::move(b);
  return CUDA_SUCCESS;
}

void Memory::drop(Owned &b) {
  small_.remove(b.base);
  kept_.erase(b.base);
  ipc_memory().block_dropped(b.base);
  drop_block(b);
  block_bytes_ -= b.bytes;
  blocks_.erase(b.base);
}

// ---- allocations

bool Memory::is_small(const ContextInfo &context, u64 bytes) {
  return api::is_small(bytes, addresses().granularity(context.device));
}

u64 Memory::bytes_to_reserve(const ContextInfo &context, u64 bytes) {
  std::lock_guard lock(mutex_);
  return rounded_up(bytes, addresses().granularity(context.device));
}

bool Memory::allocate_from_blocks(const ContextInfo &context, u64 bytes, u64 &out) {
  std::lock_guard lock(mutex_);
  Owned *block = cut_from_blocks(context, bytes, out);
  if (block == nullptr) return false;
  record(*block, out, bytes);
  return true;
}

CUresult Memory::allocate(const ContextInfo &context, u64 bytes, u64 &out) {
  std::lock_guard lock(mutex_);
  if (bytes > kLargestBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  Owned *block = cut_from_blocks(context, bytes, out);
  if (block == nullptr) return allocate_in_new_block(context, bytes, out);
  record(*block, out, bytes);
  return CUDA_SUCCESS;
}

// Null: no block has room.
Memory::Owned *Memory::cut_from_blocks(const ContextInfo &context, u64 bytes, u64 &out) {
  if (!is_small(context, bytes)) return nullptr;
  auto piece = small_.take(context.handle, bytes);
  if (!piece) return nullptr;
  out = piece->base;
  return blocks_.at(piece->block).get();
}

CUresult Memory::allocate_in_new_block(const ContextInfo &context, u64 bytes, u64 &out) {
  bool small = is_small(context, bytes);
  u64 size = rounded_up(bytes, addresses().granularity(context.device));
  Owned *block = nullptr;
  CUresult e = CUDA_SUCCESS;
  if (small || !reuse_kept(context, size, block)) e = new_block(context, size, small, block);
  if (e != CUDA_SUCCESS) return e;
  out = block->base;
  if (small) small_.add(context.handle, block->base, size, bytes);
  record(*block, out, bytes);
  return CUDA_SUCCESS;
}

void Memory::record(Owned &block, u64 base, u64 bytes) {
  block.live++;
  const ContextInfo &c = block.context;
  allocations_[base] = {base, bytes, block.base, next_buffer_id(), c.handle, c.device, false};
}

bool Memory::has_other_spare(const Owned &b) {
  auto spare = blocks_.find(spare_[b.context.handle]);
  return spare != blocks_.end() && spare->second.get() != &b && spare->second->live == 0;
}

void Memory::free_piece(const Allocation &a) {
  Owned &b = *blocks_[a.block];
  b.live--;
  if (!b.small) return keep_or_drop(b);
  if (!small_.give(b.base, a.base, a.bytes)) return;
  if (has_other_spare(b) || ipc_memory().is_exported(b.base)) return drop(b);
  spare_[b.context.handle] = b.base;
}

// ---- blocks that stay mapped without an allocation

bool Memory::reuse_kept(const ContextInfo &context, u64 bytes, Owned *&out) {
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

void Memory::keep_or_drop(Owned &b) {
  CUdevice device = b.device;
  bool keeps = keeps_blocks_ && !ipc_memory().is_exported(b.base);
  u64 most = keeps ? most_kept(device) : 0;
  if (b.bytes > most) return drop(b);
  kept_.add({b.base, b.bytes, b.context.handle, device});
  while (kept_.bytes(device) > most) drop(*blocks_.at(*kept_.oldest(device)));
}

bool Memory::drop_kept_blocks() {
  bool any = false;
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    Owned &b = *it++->second;
    if (b.live > 0) continue;
    drop(b);
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
    Owned &b = *it++->second;
    if (b.context.handle == context) drop(b);
  }
  spare_.erase(context);
}

u64 Memory::block_of_only(u64 base) const {
  std::lock_guard lock(mutex_);
  auto it = allocations_.find(base);
  return it != allocations_.end() && blocks_.at(it->second.block)->live == 1 ? it->second.block : 0;
}

u64 Memory::bytes_of_block(u64 base) const {
  std::lock_guard lock(mutex_);
  auto it = blocks_.find(base);
  return it == blocks_.end() ? 0 : it->second->bytes;
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
    if (b->context.handle != owner || b->device == device) continue;
    CUmemAccessDesc access = access_from(device, allowed);
    if (CUresult e = give_access(base, b->bytes, {&access, 1}); e != CUDA_SUCCESS) return e;
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
    if (b->live == 0 && b->device == device) bytes += b->bytes;
  return bytes;
}

u64 Memory::block_bytes(CUdevice device) const {
  std::lock_guard lock(mutex_);
  u64 bytes = 0;
  for (auto &[base, b] : blocks_)
    if (b->device == device) bytes += b->bytes;
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
    all.push_back({fmt::format("mem-{:x}", base), base, rounded_up(bytes, api::kGrainBytes),
                   blocks_.at(base)->context.handle, blocks_.at(base)->device, base});
  return all;
}

std::vector<KeyedPhysical> Memory::physical() const {
  std::lock_guard lock(mutex_);
  std::vector<KeyedPhysical> all;
  for (auto &[base, b] : blocks_)
    if (b->live > 0) all.push_back({base, b->bytes, b->physical});
  return all;
}

void Memory::with_block(u64 base, const std::function<void(const BlockView &)> &look) const {
  std::lock_guard lock(mutex_);
  auto it = blocks_.find(base);
  if (it == blocks_.end()) return;
  const Owned &b = *it->second;
  look({base, b.bytes, b.physical, b.context.handle, b.mapped});
}

std::vector<Memory::BlockView> Memory::views() const {
  std::lock_guard lock(mutex_);
  std::vector<BlockView> all;
  for (auto &[base, b] : blocks_)
    all.push_back({base, b->bytes, b->physical, b->context.handle, b->mapped});
  return all;
}

Result<> Memory::unmap_all() {
  std::lock_guard lock(mutex_);
  std::vector<Block *> all;
  for (auto &[base, b] : blocks_) all.push_back(b.get());
  CKPT_CHECK(unmap_blocks(all));
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    Owned &b = *it++->second;
    if (b.live == 0) drop(b);
  }
  return {};
}

Result<> Memory::remap_all() {
  std::lock_guard lock(mutex_);
  for (auto &[base, b] : blocks_) {
    if (b->mapped) continue;
    if (CUresult e = map_block(*b, access_to(*b)); e != CUDA_SUCCESS)
      return fail("cannot map {} bytes of device memory at {:#x} again: {}", b->bytes, base,
                  error_name(e));
  }
  return {};
}

}  // namespace ckpt::cuda
