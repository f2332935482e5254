// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/host_memory.h"

#include <sys/mman.h>

#include <iterator>

namespace ckpt::remote::cuda {

HostMemory &host_memory() {
  static HostMemory *const kMemory = new HostMemory;
  return *kMemory;
}

CUresult HostMemory::allocate(u64 bytes, unsigned flags, void **out) {
  void *p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(mutex_);
  u64 base = number_of(p);
  all_[base] = {base, bytes, flags, false, current_context()};
  *out = p;
  return CUDA_SUCCESS;
}

CUresult HostMemory::add_registered(u64 base, u64 bytes, unsigned flags) {
  std::lock_guard lock(mutex_);
  auto next = all_.lower_bound(base);
  bool taken = next != all_.end() && next->first < base + bytes;
  if (next != all_.begin()) taken |= std::prev(next)->first + std::prev(next)->second.bytes > base;
  if (taken) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  all_[base] = {base, bytes, flags, true, current_context()};
  return CUDA_SUCCESS;
}

CUresult HostMemory::remove(u64 base, bool registered) {
  std::lock_guard lock(mutex_);
  auto found = all_.find(base);
  if (found == all_.end() || found->second.registered != registered)
    return registered ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
  if (!registered) ::munmap(reinterpret_cast<void *>(base), found->second.bytes);
  all_.erase(found);
  return CUDA_SUCCESS;
}

std::optional<HostRange> HostMemory::find(u64 address) const {
  std::lock_guard lock(mutex_);
  auto next = all_.upper_bound(address);
  if (next == all_.begin()) return {};
  const HostRange &r = std::prev(next)->second;
  return address - r.base < r.bytes ? std::optional(r) : std::nullopt;
}

}  // namespace ckpt::remote::cuda
