// SPDX-License-Identifier: Apache-2.0
//
// Blocks of large allocations that were freed and stay mapped. A program that allocates and frees a
// buffer in a loop then pays no driver calls. Their memory is bounded, and they are dropped as soon
// as memory is short, because no other process can use it. Not thread-safe.
#pragma once

#include <algorithm>
#include <list>
#include <optional>

#include "libckpt-cuda/entry/driver.h"

namespace ckpt::cuda {

// Of one device's memory, at most this, and at most 1/64 of it.
inline constexpr u64 kMostKeptBytes = 128u << 20;
inline constexpr u64 kKeptShare = 64;

class KeptBlocks {
 public:
  struct Block {
    u64 base, bytes;
    CUcontext context;
    CUdevice device;
  };

  void add(const Block &b) { blocks_.push_back(b); }
  // Takes a block of exactly this size out; the one that was added last, which is the one most
  // likely to be in a cache of the device.
  std::optional<u64> take(CUcontext context, u64 bytes) {
    auto it = std::find_if(blocks_.rbegin(), blocks_.rend(), [&](const Block &b) {
      return b.context == context && b.bytes == bytes;
    });
    if (it == blocks_.rend()) return {};
    u64 base = it->base;
    blocks_.erase(std::prev(it.base()));
    return base;
  }
  void erase(u64 base) {
    std::erase_if(blocks_, [base](const Block &b) { return b.base == base; });
  }
  std::optional<u64> oldest(CUdevice device) const {
    for (const Block &b : blocks_)
      if (b.device == device) return b.base;
    return {};
  }
  u64 bytes(CUdevice device) const {
    u64 sum = 0;
    for (const Block &b : blocks_) sum += b.device == device ? b.bytes : 0;
    return sum;
  }

 private:
  std::list<Block> blocks_;  // the oldest first
};

}  // namespace ckpt::cuda
