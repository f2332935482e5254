// SPDX-License-Identifier: Apache-2.0
//
// The payload of a command while it is put together: a Writer (common/base/bytes.h) that takes
// memory from the heap only for long payloads. A launch has three commands, and a heap block for
// each of their fields would take longer than the rest.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/bytes.h"

namespace ckpt::ocl {

// Writes of so many bytes travel in the command itself; they fit without memory of the heap.
inline constexpr size_t kMaxInlineWrite = 4096;

class Payload {
 public:
  // Leaves the bytes as they are; "= default" would set them to zero in `Payload p{}`.
  Payload() {}  // NOLINT(modernize-use-equals-default)
  Payload(const Payload &) = delete;

  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T> Payload &put(T v) {
    return raw(&v, sizeof v);
  }
  Payload &raw(const void *p, size_t n) {
    if (n > 0) std::memcpy(take_room(n), p, n);
    return *this;
  }
  Payload &blob(ByteView b) { return put(static_cast<u32>(b.size())).raw(b.data(), b.size()); }
  // Room for `n` more bytes, which the caller fills.
  std::byte *take_room(size_t n) {
    if (n > room_ - used_) grow(n);
    return data_ + std::exchange(used_, used_ + n);
  }

  ByteView bytes() const { return {data_, used_}; }
  Bytes copy() const { return {data_, data_ + used_}; }

 private:
  void grow(size_t n) {
    Bytes larger(std::max(2 * room_, used_ + n));
    std::memcpy(larger.data(), data_, used_);
    heap_ = std::move(larger);
    data_ = heap_.data();
    room_ = heap_.size();
  }

  std::array<std::byte, kMaxInlineWrite + 256> own_;
  Bytes heap_;
  std::byte *data_ = own_.data();
  size_t room_ = own_.size(), used_ = 0;
};

}  // namespace ckpt::ocl
