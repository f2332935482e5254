// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/link/staging.h"

namespace ckpt::ocl {

std::optional<u64> StagingSpace::allocate(u64 bytes) {
  bytes = rounded(bytes);
  std::lock_guard lock(mutex_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    auto [offset, room] = *it;
    if (room < bytes) continue;
    free_.erase(it);
    if (room > bytes) free_[offset + bytes] = room - bytes;
    return offset;
  }
  return std::nullopt;
}

void StagingSpace::release(u64 offset, u64 bytes) {
  bytes = rounded(bytes);
  std::lock_guard lock(mutex_);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

bool StagingSpace::empty() const {
  std::lock_guard lock(mutex_);
  return free_.size() == 1 && free_.begin()->second == bytes_;
}

}  // namespace ckpt::ocl
