// SPDX-License-Identifier: Apache-2.0
//
// The functions of Memory for a checkpoint.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softcuda/device/windows.h"

namespace ckpt::softcuda {
namespace {

// The contents of mappings belong to their physical memory (driver/vmm.cc).
bool has_granules(const Allocation &a) {
  return a.kind == MemoryKind::Device || a.kind == MemoryKind::Pool;
}

}  // namespace

std::vector<std::pair<u64, u64>> Memory::closed_parts() const {
  std::vector<std::pair<u64, u64>> parts;
  u64 at = window_;
  for (const auto &[base, bytes] : reservations_) {
    if (!own_reservations_) break;
    if (base > at) parts.emplace_back(at, base);
    at = base + bytes;
  }
  if (at < window_ + kWindowBytes) parts.emplace_back(at, window_ + kWindowBytes);
  return parts;
}

// The windows are unmapped, because CRIU would inspect every page of them. Their addresses stay
// free: the kernel places no other mapping there unless it is asked to.
Result<> Memory::save_device_memory() {
  std::unique_lock lock(mutex_);
  if (window_ == 0) return {};
  for (const auto &[base, a] : allocations_) {
    if (!has_granules(a)) continue;
    Saved &k = saved_.emplace_back(Saved{base, std::vector<std::byte>(a.reserved)});
    std::memcpy(k.bytes.data(), pointer(a.host), a.reserved);
    if (a.reserved >= kGranuleBytes) budget_.give(a.device, a.reserved);
  }
  small_.for_each([this](u32 device, u64) { budget_.give(device, kGranuleBytes); });
  for (auto [begin, end] : closed_parts()) munmap(pointer(begin), end - begin);
  munmap(pointer(window_ + distance_), kWindowBytes);
  populated_.forget(0, ~u64{0});
  files_.clear();
  return {};
}

void Memory::leave_to_parent() {
  if (window_ == 0) return;
  for (auto [begin, end] : closed_parts()) munmap(pointer(begin), end - begin);
  munmap(pointer(window_ + distance_), kWindowBytes);
  files_.clear();
}

bool Memory::reopen_window() {
  std::vector<std::pair<u64, u64>> parts = closed_parts();
  parts.emplace_back(window_ + distance_, window_ + distance_ + kWindowBytes);
  // EEXIST: the part is still mapped from a restore that failed.
  return std::ranges::all_of(parts, [](auto part) {
    return map_without_access(part.first, part.second - part.first,
                              MAP_NORESERVE | MAP_FIXED_NOREPLACE) ||
           errno == EEXIST;
  });
}

Result<> Memory::restore_device_memory() {
  std::unique_lock lock(mutex_);
  if (window_ == 0) return {};
  if (!reopen_window()) return fail_errno("cannot map the addresses of device memory again");
  // Either all of the memory is restored, or none.
  std::vector<std::pair<u32, u64>> taken;
  auto take = [&](u32 device, u64 base, u64 bytes) {
    if (!budget_.take(device, bytes)) return false;
    taken.emplace_back(device, bytes);
    return commit(base, bytes);
  };
  bool enough = true;
  for (const auto &[base, a] : allocations_)
    if (has_granules(a) && a.reserved >= kGranuleBytes)
      enough = enough && take(a.device, base, a.reserved);
  small_.for_each(
      [&](u32 device, u64 base) { enough = enough && take(device, base, kGranuleBytes); });
  if (!enough) {
    for (auto [device, bytes] : taken) budget_.give(device, bytes);
    return fail("the device has too little free memory to restore the process");
  }
  for (const Saved &k : saved_)
    std::memcpy(pointer(k.base + distance_), k.bytes.data(), k.bytes.size());
  saved_.clear();
  return {};
}

bool Memory::remap(u64 physical, int memory_fd) {
  std::unique_lock lock(mutex_);
  for (const auto &[base, a] : allocations_) {
    if (a.kind != MemoryKind::Mapping || a.physical != physical) continue;
    void *p = mmap(pointer(a.host), a.reserved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                   memory_fd, static_cast<off_t>(a.offset));
    if (p == MAP_FAILED) return false;
  }
  return true;
}

}  // namespace ckpt::softcuda
