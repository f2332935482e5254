// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory.h"

#include <algorithm>

#include "common/base/log.h"

namespace ckpt::cuda {
namespace {

constexpr u64 kLeastWindowBytes = 16ull << 30;
// Of a device's memory: addresses are plenty, and holes between blocks must not use them up.
constexpr u64 kWindowsPerDevice = 4;

u64 rounded(u64 bytes, u64 to) { return (bytes + to - 1) / to * to; }

CUmemAllocationProp on_device(CUdevice device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  return prop;
}

CUresult give_access(u64 base, u64 bytes, CUdevice device, bool may) {
  CUmemAccessDesc access{};
  access.location = on_device(device).location;
  access.flags = may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return driver().cuMemSetAccess(base, bytes, &access, 1);
}

}  // namespace

Memory &memory() {
  static Memory *const kMemory = new Memory;
  return *kMemory;
}

// ---- addresses

u64 Memory::granularity(CUdevice device) {
  u64 &known = granularity_[device];
  if (known != 0) return known;
  CUmemAllocationProp prop = on_device(device);
  size_t bytes = 0;
  driver().cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  return known = std::max<u64>(bytes, kGrainBytes);
}

CUresult Memory::reserve(CUdevice device, u64 bytes, u64 &base) {
  u64 align = granularity(device);
  std::optional<u64> at = addresses_.take(bytes, align);
  if (!at) {
    size_t total = 0;
    driver().cuDeviceTotalMem_v2(&total, device);
    u64 window = rounded(std::max({kLeastWindowBytes, kWindowsPerDevice * total, bytes}), align);
    CUdeviceptr p = 0;
    CUresult e = driver().cuMemAddressReserve(&p, window, align, 0, 0);
    if (e != CUDA_SUCCESS) return e;
    addresses_.give(p, window);
    at = addresses_.take(bytes, align);
  }
  if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
  base = *at;
  return CUDA_SUCCESS;
}

// ---- blocks

CUresult Memory::map(Block &b) {
  CUmemAllocationProp prop = on_device(b.context.device);
  CUresult e = driver().cuMemCreate(&b.physical, b.bytes, &prop, 0);
  if (e != CUDA_SUCCESS) return e;
  e = driver().cuMemMap(b.base, b.bytes, 0, b.physical, 0);
  b.mapped = e == CUDA_SUCCESS;
  for (CUdevice d : devices_that_reach(b.context))
    if (e == CUDA_SUCCESS) e = give_access(b.base, b.bytes, d, true);
  if (e != CUDA_SUCCESS) unmap(b);
  return e;
}

void Memory::unmap(Block &b) {
  if (b.mapped) driver().cuMemUnmap(b.base, b.bytes);
  if (b.physical != 0) driver().cuMemRelease(b.physical);
  b.mapped = false;
  b.physical = 0;
}

CUresult Memory::new_block(const ContextInfo &context, u64 bytes, bool small, Block *&out) {
  auto b = std::make_unique<Block>();
  b->bytes = bytes;
  b->context = context;
  b->small = small;
  CUresult e = reserve(context.device, bytes, b->base);
  if (e != CUDA_SUCCESS) return e;
  e = map(*b);
  if (e != CUDA_SUCCESS) return addresses_.give(b->base, bytes), e;
  out = b.get();
  held_ += bytes;
  blocks_[b->base] = std::move(b);
  return CUDA_SUCCESS;
}

void Memory::drop_block(Block &b) {
  if (b.small) set_room(b, 0);
  unmap(b);
  held_ -= b.bytes;
  addresses_.give(b.base, b.bytes);
  blocks_.erase(b.base);
}

void Memory::set_room(Block &b, u64 largest) {
  if (largest == b.largest_free) return;
  Roomy &roomy = roomy_[b.context.handle];
  roomy.erase({b.largest_free, b.base});
  b.largest_free = largest;
  if (largest > 0) roomy.insert({largest, b.base});
}

// ---- allocations

CUresult Memory::small_allocation(const ContextInfo &context, u64 bytes, u64 &base, Block *&block) {
  Roomy &roomy = roomy_[context.handle];
  for (auto it = roomy.lower_bound({bytes, 0}); it != roomy.end();
       it = roomy.lower_bound({bytes, 0})) {
    Block &b = *blocks_[it->second];
    if (std::optional<u64> at = b.free.take(bytes, kGrainBytes))
      return base = *at, block = &b, CUDA_SUCCESS;
    set_room(b, bytes - kGrainBytes);  // it has not so much in one piece
  }
  u64 size = granularity(context.device);
  CUresult e = new_block(context, size, true, block);
  if (e != CUDA_SUCCESS) return e;
  block->free = Spans(block->base, size);
  base = *block->free.take(bytes, kGrainBytes);
  set_room(*block, size - bytes);
  return CUDA_SUCCESS;
}

u64 Memory::growth(const ContextInfo &context, u64 bytes) {
  u64 block = granularity(context.device);
  if (bytes > block / 2) return rounded(bytes, block);
  // Whether it has so much in one piece is known when it is taken.
  const Roomy &roomy = roomy_[context.handle];
  return roomy.lower_bound({rounded(bytes, kGrainBytes), 0}) == roomy.end() ? block : 0;
}

CUresult Memory::allocate(const ContextInfo &context, u64 bytes, u64 &out, u64 *growth_wanted) {
  std::lock_guard lock(mutex_);
  if (growth_wanted != nullptr && (*growth_wanted = growth(context, bytes)) > 0)
    return CUDA_SUCCESS;
  u64 block_bytes = granularity(context.device);
  if (bytes > kLeastWindowBytes << 16) return CUDA_ERROR_OUT_OF_MEMORY;
  Block *block = nullptr;
  CUresult e;
  if (bytes <= block_bytes / 2) {
    e = small_allocation(context, rounded(bytes, kGrainBytes), out, block);
  } else {
    e = new_block(context, rounded(bytes, block_bytes), false, block);
    if (e == CUDA_SUCCESS) out = block->base;
  }
  if (e != CUDA_SUCCESS) return e;
  block->live++;
  allocations_[out] = {out, bytes, block->base, next_id_++, context.handle, context.device, false};
  return CUDA_SUCCESS;
}

void Memory::give_back(const Allocation &a) {
  Block &b = *blocks_[a.block];
  b.live--;
  if (!b.small) return drop_block(b);
  b.free.give(a.base, rounded(a.bytes, kGrainBytes));
  set_room(b, b.bytes);
  if (b.live > 0) return;
  // One empty block stays, so that a single allocation that comes and goes costs no mapping.
  auto spare = blocks_.find(spare_[b.context.handle]);
  bool another = spare != blocks_.end() && spare->second.get() != &b && spare->second->live == 0;
  if (another) return drop_block(b);
  spare_[b.context.handle] = b.base;
}

bool Memory::release(u64 base, u64 *given) {
  std::lock_guard lock(mutex_);
  u64 before = held_;
  auto it = allocations_.find(base);
  if (it == allocations_.end()) return false;
  give_back(it->second);
  allocations_.erase(it);
  if (given != nullptr) *given = before - held_;
  return true;
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

CUresult Memory::set_access(CUcontext whose, CUdevice device, bool may) {
  std::lock_guard lock(mutex_);
  for (auto &[base, b] : blocks_) {
    if (b->context.handle != whose || b->context.device == device) continue;
    if (CUresult e = give_access(base, b->bytes, device, may); e != CUDA_SUCCESS) return e;
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

// ---- how much

u64 Memory::spare_bytes(CUdevice device) const {
  std::lock_guard lock(mutex_);
  u64 bytes = 0;
  for (auto &[base, b] : blocks_)
    if (b->live == 0 && b->context.device == device) bytes += b->bytes;
  return bytes;
}

u64 Memory::mapped_bytes(CUdevice device) const {
  std::lock_guard lock(mutex_);
  u64 bytes = 0;
  for (auto &[base, b] : blocks_)
    if (b->context.device == device) bytes += b->bytes;
  return bytes;
}

// ---- a checkpoint

// A block of small allocations is saved as a whole, unless nothing in it is wanted.
std::vector<Contents> Memory::contents() const {
  std::lock_guard lock(mutex_);
  std::map<u64, u64> wanted;  // block, how far
  for (auto &[base, a] : allocations_)
    if (!a.excluded) wanted[a.block] = std::max(wanted[a.block], base + a.bytes - a.block);
  std::vector<Contents> all;
  for (auto &[base, bytes] : wanted)
    all.push_back({fmt::format("mem-{:x}", base), base, rounded(bytes, kGrainBytes),
                   blocks_.at(base)->context.handle});
  return all;
}

// Blocks side by side are unmapped by one call.
void Memory::release_devices() {
  std::lock_guard lock(mutex_);
  u64 begin = 0, end = 0;
  auto unmap_run = [&] {
    if (end > begin) driver().cuMemUnmap(begin, end - begin);
  };
  for (auto &[base, b] : blocks_) {
    if (!b->mapped) continue;
    if (base != end) unmap_run(), begin = base;
    end = base + b->bytes;
    b->mapped = false;
  }
  unmap_run();
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    Block &b = *it++->second;
    unmap(b);
    if (b.live == 0) drop_block(b);
  }
}

Result<> Memory::come_back() {
  std::lock_guard lock(mutex_);
  for (auto &[base, b] : blocks_) {
    if (b->mapped) continue;
    if (CUresult e = map(*b); e != CUDA_SUCCESS)
      return fail("{} bytes of device memory cannot be had at {:#x} again: {}", b->bytes, base,
                  error_name(e));
  }
  return {};
}

}  // namespace ckpt::cuda
