// SPDX-License-Identifier: Apache-2.0
//
// Where two copies of the same memory differ. Memory that the program shares with a device has one
// copy on each side, and each side keeps a second one, as it was when both sides were last equal.
// So each side knows what has changed on it, and only that travels.
#pragma once

#include <algorithm>
#include <cstring>

#include "common/base/bytes.h"

namespace ckpt::remote::cuda {

// Calls `f(offset, bytes)` for each run of bytes that differ, in units of 4 bytes. Runs with at
// most `gap` equal bytes between them are one. Cost: one memcmp, and for pages of 4 KiB that differ
// one comparison for each unit.
template <class F>
void for_each_change(const std::byte *now, const std::byte *then, u64 bytes, u64 gap, F f) {
  constexpr u64 kPage = 4096, kUnit = 4;
  u64 begin = 0, end = 0;  // of the current run
  for (u64 page = 0; page < bytes; page += kPage) {
    u64 rest = std::min(kPage, bytes - page);
    if (std::memcmp(now + page, then + page, rest) == 0) continue;
    for (u64 at = page; at < page + rest; at += kUnit) {
      u64 n = std::min(kUnit, page + rest - at);
      if (std::memcmp(now + at, then + at, n) == 0) continue;
      if (end > begin && at - end > gap) f(begin, end - begin);
      if (end == begin || at - end > gap) begin = at;
      end = at + n;
    }
  }
  if (end > begin) f(begin, end - begin);
}

// The gap where the other side does not write at the same time: a range costs about as much as
// this.
inline constexpr u32 kWideGap = 64;

}  // namespace ckpt::remote::cuda
