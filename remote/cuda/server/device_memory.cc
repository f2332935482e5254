// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/device_memory.h"

#include <iterator>

namespace ckpt::remote::cuda {
namespace {

constexpr u64 kGranularity = 2u << 20;  // of physical memory, on today's devices

CUmemAllocationProp memory_of(CUdevice device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  return prop;
}

bool is_part(u64 base, u64 bytes) {
  return bytes != 0 && bytes <= DeviceMemory::kMostBytes && base % kGranularity == 0 &&
         bytes % kGranularity == 0;
}

}  // namespace

CUresult DeviceMemory::reserve(u64 base, u64 bytes, u64 &got) {
  std::lock_guard lock(mutex_);
  if (!mapped_.empty() || !is_part(base, bytes)) return CUDA_ERROR_INVALID_VALUE;
  bool kept = kept_.bytes != 0 && kept_.base == base && kept_.bytes == bytes;
  if (kept) {
    got = arena_ = base;
    arena_bytes_ = bytes;
    return CUDA_SUCCESS;
  }
  if (arena_ != 0) driver().cuMemAddressFree(arena_, arena_bytes_);
  arena_ = 0;
  CUdeviceptr p = 0;
  CUresult e = driver().cuMemAddressReserve(&p, bytes, kGranularity, base, 0);
  if (e != CUDA_SUCCESS) return e;
  // Addresses elsewhere are of no use, as the program may have stored those that it had.
  if (base != 0 && p != base) {
    driver().cuMemAddressFree(p, bytes);
    return CUDA_ERROR_INVALID_ADDRESS_SPACE;
  }
  got = p;
  arena_ = p;
  arena_bytes_ = bytes;
  return CUDA_SUCCESS;
}

bool DeviceMemory::in_arena(u64 base, u64 bytes) const {
  return is_part(base, bytes) && base >= arena_ && base - arena_ <= arena_bytes_ &&
         bytes <= arena_bytes_ - (base - arena_);
}

CUresult DeviceMemory::map_new(u64 base, u64 bytes, CUdevice device) {
  CUmemAllocationProp prop = memory_of(device);
  CUmemGenericAllocationHandle memory = 0;
  if (CUresult e = driver().cuMemCreate(&memory, bytes, &prop, 0); e != CUDA_SUCCESS) return e;
  CUresult e = driver().cuMemMap(base, bytes, 0, memory, 0);
  driver().cuMemRelease(memory);  // the mapping keeps it
  if (e != CUDA_SUCCESS) return e;
  CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  e = driver().cuMemSetAccess(base, bytes, &access, 1);
  if (e != CUDA_SUCCESS) driver().cuMemUnmap(base, bytes);
  return e;
}

bool DeviceMemory::is_free(u64 base, u64 bytes) const {
  if (!in_arena(base, bytes)) return false;
  auto next = mapped_.lower_bound(base);
  if (next != mapped_.end() && next->first < base + bytes) return false;
  return next == mapped_.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= base;
}

CUresult DeviceMemory::map(u64 base, u64 bytes, CUdevice device) {
  std::lock_guard lock(mutex_);
  if (!is_free(base, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (!ask_(static_cast<i64>(bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult e = map_new(base, bytes, device);
  if (e == CUDA_SUCCESS)
    mapped_[base] = {bytes, 0};
  else
    give_back(bytes);
  return e;
}

CUresult DeviceMemory::unmap(u64 base, u64 bytes) {
  std::lock_guard lock(mutex_);
  auto found = mapped_.find(base);
  if (found == mapped_.end() || found->second.bytes != bytes || found->second.physical != 0)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult e = driver().cuMemUnmap(base, bytes);
  if (e != CUDA_SUCCESS) return e;
  mapped_.erase(found);
  give_back(bytes);
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::make_physical(u64 number, u64 bytes, CUdevice device) {
  std::lock_guard lock(mutex_);
  if (!is_part(0, bytes) || physical_.contains(number)) return CUDA_ERROR_INVALID_VALUE;
  if (!ask_(static_cast<i64>(bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
  CUmemAllocationProp prop = memory_of(device);
  CUmemGenericAllocationHandle handle = 0;
  CUresult e = driver().cuMemCreate(&handle, bytes, &prop, 0);
  if (e == CUDA_SUCCESS)
    physical_[number] = {handle, bytes, 0};
  else
    give_back(bytes);
  return e;
}

CUresult DeviceMemory::end_physical(u64 number) {
  std::lock_guard lock(mutex_);
  auto found = physical_.find(number);
  if (found == physical_.end() || found->second.parts > 0) return CUDA_ERROR_INVALID_VALUE;
  CUresult e = driver().cuMemRelease(found->second.handle);
  if (e != CUDA_SUCCESS) return e;
  give_back(found->second.bytes);
  physical_.erase(found);
  return e;
}

CUresult DeviceMemory::map_physical(u64 base, u64 bytes, u64 number) {
  std::lock_guard lock(mutex_);
  auto found = physical_.find(number);
  if (found == physical_.end() || bytes > found->second.bytes || !is_free(base, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult e = driver().cuMemMap(base, bytes, 0, found->second.handle, 0);
  if (e != CUDA_SUCCESS) return e;
  mapped_[base] = {bytes, number};
  found->second.parts++;
  return e;
}

bool DeviceMemory::are_whole_parts(u64 base, u64 bytes) const {
  if (!in_arena(base, bytes)) return false;
  u64 at = base;
  for (auto part = mapped_.find(base); at < base + bytes; ++part) {
    if (part == mapped_.end() || part->first != at || part->second.physical == 0) return false;
    at += part->second.bytes;
  }
  return at == base + bytes;
}

CUresult DeviceMemory::unmap_physical(u64 base, u64 bytes) {
  std::lock_guard lock(mutex_);
  if (!are_whole_parts(base, bytes)) return CUDA_ERROR_INVALID_VALUE;
  CUresult e = driver().cuMemUnmap(base, bytes);
  if (e != CUDA_SUCCESS) return e;
  for (auto part = mapped_.find(base); part != mapped_.end() && part->first < base + bytes;) {
    physical_[part->second.physical].parts--;
    part = mapped_.erase(part);
  }
  return e;
}

CUresult DeviceMemory::set_access(u64 base, u64 bytes, CUdevice device, u32 flags) {
  std::lock_guard lock(mutex_);
  if (!are_whole_parts(base, bytes)) return CUDA_ERROR_INVALID_VALUE;
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {device}},
                         static_cast<CUmemAccess_flags>(flags)};
  return driver().cuMemSetAccess(base, bytes, &access, 1);
}

void DeviceMemory::unmap_all() {
  std::lock_guard lock(mutex_);
  for (const auto &[base, part] : mapped_) {
    driver().cuMemUnmap(base, part.bytes);
    if (part.physical == 0) give_back(part.bytes);
  }
  mapped_.clear();
  for (const auto &[number, memory] : physical_) {
    driver().cuMemRelease(memory.handle);
    give_back(memory.bytes);
  }
  physical_.clear();
}

void DeviceMemory::add(u64 base, u64 bytes, u64 owner) {
  std::lock_guard lock(mutex_);
  placed_[base] = {bytes, owner};
}

void DeviceMemory::forget_of(u64 owner) {
  std::lock_guard lock(mutex_);
  std::erase_if(placed_, [&](const auto &p) { return p.second.owner == owner; });
}

bool DeviceMemory::holds(u64 address, u64 bytes) const {
  if (bytes > kMostBytes || address > UINT64_MAX - bytes) return false;
  std::lock_guard lock(mutex_);
  auto placed = placed_.upper_bound(address);
  if (placed != placed_.begin() &&
      address + bytes <= std::prev(placed)->first + std::prev(placed)->second.bytes)
    return true;
  return maps_locked(address, bytes);
}

bool DeviceMemory::maps(u64 address, u64 bytes) const {
  if (bytes > kMostBytes || address > UINT64_MAX - bytes) return false;
  std::lock_guard lock(mutex_);
  return maps_locked(address, bytes);
}

void DeviceMemory::forget_shared(u64 base) {
  std::lock_guard lock(mutex_);
  placed_.erase(base);
}

// Neighbouring parts of the arena may hold one allocation.
bool DeviceMemory::maps_locked(u64 address, u64 bytes) const {
  for (u64 at = address, end = address + bytes;;) {
    auto part = mapped_.upper_bound(at);
    if (part == mapped_.begin()) return false;
    --part;
    if (at >= part->first + part->second.bytes) return false;
    at = part->first + part->second.bytes;
    if (at >= end) return true;
  }
}

}  // namespace ckpt::remote::cuda
