// SPDX-License-Identifier: Apache-2.0
//
// Device addresses for blocks: windows are reserved once and never given back to the driver (see
// memory.h).
#pragma once

#include <map>
#include <mutex>

#include "common/base/rounded_up.h"
#include "common/base/spans.h"
#include "cuda/small_blocks.h"
#include "libckpt-cuda/entry/driver.h"

namespace ckpt::cuda {

// No allocation is larger; keeps sums of sizes far from overflow.
inline constexpr u64 kLargestBytes = u64{1} << 50;

// Thread-safe.
class Addresses {
 public:
  // The size of physical memory is a multiple of this, and blocks are aligned at it: 2 MiB on
  // today's devices.
  u64 granularity(CUdevice device);
  // `bytes` is a multiple of the granularity. Reserves a further window if need be.
  CUresult take(CUdevice device, u64 bytes, u64 &base);
  void give(u64 base, u64 bytes);
  // The first address of its window: cuMemUnmap takes no range of two reservations.
  u64 window_of(u64 base) const;
  // Whether any address of the range is in a window.
  bool overlap(u64 at, u64 bytes) const;

 private:
  u64 known_granularity(CUdevice device);
  CUresult reserve_window(CUdevice device, u64 least);
  std::optional<u64> take_from_windows(u64 bytes, u64 align);

  struct Window {
    u64 bytes = 0;
    Spans free;  // the parts that no block has
  };
  mutable std::mutex mutex_;
  std::map<u64, Window> windows_;  // by first address
  std::map<CUdevice, u64> granularity_;
};

// Lives as long as the process.
Addresses &addresses();

}  // namespace ckpt::cuda
