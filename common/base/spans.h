// SPDX-License-Identifier: Apache-2.0
//
// An allocator of address ranges: first fit, and adjacent free ranges are merged.
#pragma once

#include <map>
#include <optional>

#include "common/base/bytes.h"

namespace ckpt {

class Spans {
 public:
  Spans() = default;
  Spans(u64 base, u64 bytes) { give(base, bytes); }

  // Allocates `bytes` at a multiple of `align`, a power of two. No value: no free range fits.
  std::optional<u64> take(u64 bytes, u64 align) {
    for (auto [base, size] : free_) {
      u64 at = (base + align - 1) & ~(align - 1);
      if (at - base > size || bytes > size - (at - base)) continue;
      cut(base, size, at, bytes);
      return at;
    }
    return {};
  }

  // Allocates exactly this range; false if part of it is not free.
  bool take_at(u64 at, u64 bytes) {
    auto it = free_.upper_bound(at);
    if (it == free_.begin()) return false;
    --it;
    auto [base, size] = *it;
    if (at - base > size || bytes > size - (at - base)) return false;
    cut(base, size, at, bytes);
    return true;
  }

  // Frees a range, which must not overlap a free one.
  void give(u64 base, u64 bytes) {
    auto next = free_.lower_bound(base);
    auto before = next == free_.begin() ? free_.end() : std::prev(next);
    bool joins_next = next != free_.end() && base + bytes == next->first;
    if (before != free_.end() && before->first + before->second == base) {
      before->second += bytes + (joins_next ? next->second : 0);
      if (joins_next) free_.erase(next);
    } else if (joins_next) {
      auto entry = free_.extract(next++);
      entry.key() = base;
      entry.mapped() += bytes;
      free_.insert(next, std::move(entry));
    } else {
      free_.emplace_hint(next, base, bytes);
    }
  }

  // Whether exactly this range is one free range.
  bool holds(u64 base, u64 bytes) const {
    auto it = free_.find(base);
    return it != free_.end() && it->second == bytes;
  }

 private:
  // Changes map entries in place: every small allocation of a program comes through here.
  void cut(u64 base, u64 size, u64 at, u64 bytes) {
    auto it = free_.find(base);
    u64 rest = base + size - at - bytes;
    if (at > base) {
      it->second = at - base;
      if (rest > 0) free_.emplace_hint(std::next(it), at + bytes, rest);
    } else if (rest > 0) {
      auto entry = free_.extract(it++);
      entry.key() = at + bytes;
      entry.mapped() = rest;
      free_.insert(it, std::move(entry));
    } else {
      free_.erase(it);
    }
  }
  std::map<u64, u64> free_;  // the free ranges: base and bytes
};

}  // namespace ckpt
