// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/addresses.h"

#include <algorithm>

#include "libckpt-cuda/memory/physical.h"

namespace ckpt::cuda {
namespace {

constexpr u64 kLeastWindowBytes = 16ull << 30;
// A window is this many times the device's memory. Addresses are plentiful (47 bits or more), and
// free holes between blocks must not exhaust a window before the memory is exhausted.
constexpr u64 kWindowsPerDevice = 4;

}  // namespace

Addresses &addresses() {
  static Addresses *const kAddresses = new Addresses;
  return *kAddresses;
}

u64 Addresses::granularity(CUdevice device) {
  std::lock_guard lock(mutex_);
  return known_granularity(device);
}

u64 Addresses::known_granularity(CUdevice device) {
  u64 &known = granularity_[device];
  if (known != 0) return known;
  CUmemAllocationProp prop = memory_of(device);
  size_t bytes = 0;
  driver().cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  known = std::max<u64>(bytes, api::kGrainBytes);
  return known;
}

CUresult Addresses::reserve_window(CUdevice device, u64 least) {
  size_t total = 0;
  driver().cuDeviceTotalMem_v2(&total, device);
  u64 align = known_granularity(device);
  u64 bytes = rounded_up(std::max({kLeastWindowBytes, kWindowsPerDevice * total, least}), align);
  CUdeviceptr p = 0;
  CUresult e = driver().cuMemAddressReserve(&p, bytes, align, 0, 0);
  if (e == CUDA_SUCCESS) windows_.emplace(p, Window{bytes, Spans(p, bytes)});
  return e;
}

std::optional<u64> Addresses::take_from_windows(u64 bytes, u64 align) {
  for (auto &[base, window] : windows_)
    if (std::optional<u64> at = window.free.take(bytes, align)) return at;
  return {};
}

u64 Addresses::window_of(u64 base) const {
  std::lock_guard lock(mutex_);
  return std::prev(windows_.upper_bound(base))->first;
}

bool Addresses::overlap(u64 at, u64 bytes) const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(windows_, [&](const auto &w) {
    return w.first < at ? at - w.first < w.second.bytes : w.first - at < bytes;
  });
}

void Addresses::give(u64 base, u64 bytes) {
  std::lock_guard lock(mutex_);
  std::prev(windows_.upper_bound(base))->second.free.give(base, bytes);
}

CUresult Addresses::take(CUdevice device, u64 bytes, u64 &base) {
  std::lock_guard lock(mutex_);
  u64 align = known_granularity(device);
  std::optional<u64> at = take_from_windows(bytes, align);
  if (!at) {
    if (CUresult e = reserve_window(device, bytes); e != CUDA_SUCCESS) return e;
    at = take_from_windows(bytes, align);
  }
  if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
  base = *at;
  return CUDA_SUCCESS;
}

}  // namespace ckpt::cuda
