// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "common/base/bytes.h"

namespace ckpt::ocl {

// A first-fit allocator for the staging part of the ring memory. Thread-safe.
class StagingSpace {
 public:
  explicit StagingSpace(u64 bytes) : bytes_(bytes) { free_[0] = bytes; }

  // The offset of `bytes` free bytes, rounded up to a cache line. No value if none are free.
  std::optional<u64> allocate(u64 bytes);
  void release(u64 offset, u64 bytes);
  bool empty() const;

 private:
  static u64 rounded(u64 bytes) { return (bytes + 63) / 64 * 64; }
  u64 bytes_;
  mutable std::mutex mutex_;
  std::map<u64, u64> free_;  // offset → bytes, never adjacent
};

}  // namespace ckpt::ocl
