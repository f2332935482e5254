// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/managed_memory.h"

#include <cstdlib>
#include <string_view>

namespace ckpt::cuda {
namespace {

bool is_wanted(std::string_view way) {
  const char *wanted = std::getenv("CKPT_CUDA_MANAGED_MEMORY");
  return wanted != nullptr && wanted == way;
}

}  // namespace

ManagedMemory &managed_memory() {
  static ManagedMemory *const kManaged = new ManagedMemory;
  return *kManaged;
}

bool ManagedMemory::wanted_on_host() {
  static const bool kWanted = is_wanted("host");
  return kWanted;
}

bool ManagedMemory::wanted_kept() {
  static const bool kWanted = is_wanted("kept");
  return kWanted;
}

void ManagedMemory::insert(CUdeviceptr p, u64 bytes, bool on_host) {
  std::lock_guard lock(mutex_);
  used_ = true;
  ranges_[p] = {bytes, on_host};
}

void ManagedMemory::erase(CUdeviceptr p) {
  if (!used_) return;
  std::lock_guard lock(mutex_);
  ranges_.erase(p);
}

bool ManagedMemory::on_host(CUdeviceptr p) const {
  if (!used_) return false;
  std::lock_guard lock(mutex_);
  auto it = ranges_.upper_bound(p);
  if (it == ranges_.begin()) return false;
  --it;
  return it->second.on_host && p - it->first < it->second.bytes;
}

u64 ManagedMemory::driver_bytes() const {
  std::lock_guard lock(mutex_);
  u64 sum = 0;
  for (auto &[p, range] : ranges_) sum += range.on_host ? 0 : range.bytes;
  return sum;
}

}  // namespace ckpt::cuda
