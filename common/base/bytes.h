// SPDX-License-Identifier: Apache-2.0
//
// Writer and Reader: the one encoding of every message and binary file of the project. Integers are
// little-endian and unaligned; strings and blobs carry a u32 length. A Reader accepts untrusted
// bytes: it never reads past the end. After the first bad field all further fields read as zero and
// ok() is false, so a caller may decode a whole message and check once.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ckpt {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

static_assert(std::endian::native == std::endian::little,
              "integers are written as they are in memory");

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

inline ByteView view(const void *p, size_t n) { return {static_cast<const std::byte *>(p), n}; }
inline ByteView view(std::string_view s) { return view(s.data(), s.size()); }
inline std::string_view text(ByteView b) {
  return {reinterpret_cast<const char *>(b.data()), b.size()};
}

class Writer {
 public:
  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T> Writer &put(T v) { return raw(&v, sizeof v); }
  Writer &put(double v) { return raw(&v, sizeof v); }
  Writer &raw(const void *p, size_t n) {
    if (n == 0) return *this;
    // Not insert(): g++ 12 warns of an overflow in it that cannot happen (-Wstringop-overflow).
    size_t at = out_.size();
    out_.resize(at + n);
    std::memcpy(out_.data() + at, p, n);
    return *this;
  }
  Writer &blob(ByteView b) { return put(static_cast<u32>(b.size())).raw(b.data(), b.size()); }
  Writer &str(std::string_view s) { return blob(view(s)); }

  size_t size() const { return out_.size(); }
  ByteView bytes() const { return out_; }
  Bytes take() { return std::move(out_); }
  void clear() { out_.clear(); }

 private:
  Bytes out_;
};

class Reader {
 public:
  explicit Reader(ByteView in) : in_(in) {}

  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T> || std::is_same_v<T, double> T get() {
    T v{};
    if (ByteView b = raw(sizeof v); ok_) std::memcpy(&v, b.data(), sizeof v);
    return v;
  }
  ByteView raw(size_t n) {
    if (!ok_ || n > in_.size()) {
      ok_ = false;
      return {};
    }
    ByteView b = in_.first(n);
    in_ = in_.subspan(n);
    return b;
  }
  ByteView blob() { return raw(get<u32>()); }
  std::string_view str() { return text(blob()); }

  bool ok() const { return ok_; }
  size_t left() const { return in_.size(); }
  bool done() const { return ok_ && in_.empty(); }

 private:
  ByteView in_;
  bool ok_ = true;
};

}  // namespace ckpt
