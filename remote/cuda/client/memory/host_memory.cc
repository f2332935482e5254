// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/memory/host_memory.h"

#include <iterator>

namespace ckpt::remote::cuda {

HostMemory &host_memory() {
  static HostMemory *const kMemory = new HostMemory;
  return *kMemory;
}

CUresult HostMemory::add(const HostRange &range) {
  std::lock_guard lock(mutex_);
  auto next = all_.lower_bound(range.base);
  bool taken = next != all_.end() && next->first < range.base + range.bytes;
  if (next != all_.begin())
    taken |= std::prev(next)->first + std::prev(next)->second.bytes > range.base;
  if (taken) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  all_[range.base] = range;
  return CUDA_SUCCESS;
}

void HostMemory::set_device(u64 base, u64 device) {
  std::lock_guard lock(mutex_);
  if (auto found = all_.find(base); found != all_.end()) found->second.device = device;
}

CUresult HostMemory::remove(u64 base, bool registered, HostRange &out) {
  std::lock_guard lock(mutex_);
  auto found = all_.find(base);
  if (found == all_.end() || found->second.registered != registered)
    return registered ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
  out = found->second;
  all_.erase(found);
  return CUDA_SUCCESS;
}

std::vector<HostRange> HostMemory::all() const {
  std::lock_guard lock(mutex_);
  std::vector<HostRange> ranges;
  for (const auto &[base, r] : all_) ranges.push_back(r);
  return ranges;
}

std::optional<HostRange> HostMemory::find(u64 address) const {
  std::lock_guard lock(mutex_);
  auto next = all_.upper_bound(address);
  if (next == all_.begin()) return {};
  const HostRange &r = std::prev(next)->second;
  return address - r.base < r.bytes ? std::optional(r) : std::nullopt;
}

}  // namespace ckpt::remote::cuda
