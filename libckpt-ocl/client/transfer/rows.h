// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "common/ipc/copy_counts.h"
#include "libckpt-ocl/client/link/link.h"
#include "libckpt-ocl/client/transfer/transfer.h"

namespace ckpt::ocl {

inline void copy_rows(std::byte *to, size_t to_row, size_t to_slice, const std::byte *from,
                      size_t from_row, size_t from_slice, const size_t region[3]) {
  for (size_t z = 0; z < region[2]; z++)
    for (size_t y = 0; y < region[1]; y++)
      std::memcpy(to + z * to_slice + y * to_row, from + z * from_slice + y * from_row, region[0]);
}

// From the first byte of host memory to the last.
inline size_t host_extent(const Rect &r) {
  return r.region[0] + (r.region[1] - 1) * r.host_row + (r.region[2] - 1) * r.host_slice;
}

// Every transfer between host memory and a memory object comes here, piece by piece.
inline void count_copy(bool to_host, size_t bytes) {
  link().traffic.count_bytes(bytes);
  CopyCounts *counts = copy_counts();
  if (counts == nullptr) return;
  std::atomic<u64> &count = to_host ? counts->to_host : counts->to_device;
  count.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace ckpt::ocl
