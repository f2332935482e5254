// SPDX-License-Identifier: Apache-2.0
//
// Which parts of a stretch of addresses are free. First fit; neighbours become one again.
#pragma once

#include <map>
#include <optional>

#include "common/bytes.h"

namespace ckpt {

class Spans {
 public:
  Spans() = default;
  Spans(u64 base, u64 bytes) { give(base, bytes); }

  // `align` is a power of two.
  std::optional<u64> take(u64 bytes, u64 align) {
    for (auto [base, size] : free_) {
      u64 at = (base + align - 1) & ~(align - 1);
      if (at - base <= size && bytes <= size - (at - base)) return cut(base, size, at, bytes), at;
    }
    return {};
  }

  bool take_at(u64 at, u64 bytes) {
    auto it = free_.upper_bound(at);
    if (it == free_.begin()) return false;
    --it;
    auto [base, size] = *it;
    if (at - base > size || bytes > size - (at - base)) return false;
    cut(base, size, at, bytes);
    return true;
  }

  void give(u64 base, u64 bytes) {
    auto next = free_.lower_bound(base);
    if (next != free_.end() && base + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == base) {
        before->second += bytes;
        return;
      }
    }
    free_[base] = bytes;
  }

  // Is all of this free?
  bool holds(u64 base, u64 bytes) const {
    auto it = free_.find(base);
    return it != free_.end() && it->second == bytes;
  }

 private:
  void cut(u64 base, u64 size, u64 at, u64 bytes) {
    free_.erase(base);
    if (at > base) free_[base] = at - base;
    if (at + bytes < base + size) free_[at + bytes] = base + size - at - bytes;
  }
  std::map<u64, u64> free_;  // base, bytes
};

}  // namespace ckpt
