// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "common/base/bytes.h"

namespace ckpt {

// The reader of CRIU's messages: one field of a message of protocol buffers (protobuf.dev,
// "Encoding").
struct ProtoField {
  u32 number = 0;
  u32 type = 0;    // 0 integer, 1 eight bytes, 2 bytes or message, 5 four bytes
  u64 value = 0;   // of an integer
  ByteView bytes;  // of the others; they lie in the message
};

// The fields of a message, one after the other. Takes any bytes, and copies none. What two decoders
// could read differently is unsound: groups, and tags of more than 32 bits, which some cut off.
class ProtoFields {
 public:
  explicit ProtoFields(ByteView message) : in_(message) {}

  // Nothing: this was the last one, or the rest cannot be parsed (sound() is false).
  std::optional<ProtoField> next() {
    if (in_.done()) return std::nullopt;
    constexpr int kTagBytes = 5;
    std::optional<u64> tag = varint(kTagBytes);
    ProtoField f;
    sound_ = tag && *tag <= ~u32{0} && take(f, *tag);
    return sound_ ? std::optional(f) : std::nullopt;
  }
  // One of a packed list of integers. Nothing: the end, or not one of 32 bits.
  std::optional<u32> next_in_list() {
    if (in_.done()) return std::nullopt;
    std::optional<u64> value = varint(kNumberBytes);
    sound_ = value && *value <= ~u32{0};
    return sound_ ? std::optional(static_cast<u32>(*value)) : std::nullopt;
  }
  bool sound() const { return sound_; }

 private:
  static constexpr int kLengthBytes = 5, kNumberBytes = 10;

  bool take(ProtoField &f, u64 tag) {
    f.number = static_cast<u32>(tag >> 3);
    f.type = static_cast<u32>(tag & 7);
    std::optional<u64> n;
    switch (f.type) {
      case 0:
        if (!(n = varint(kNumberBytes))) return false;
        f.value = *n;
        return true;
      case 1: f.bytes = in_.raw(8); return in_.ok();
      case 2:
        if (!(n = varint(kLengthBytes))) return false;
        f.bytes = in_.raw(*n);
        return in_.ok();
      case 5: f.bytes = in_.raw(4); return in_.ok();
      default: return false;
    }
  }

  std::optional<u64> varint(int most) {
    u64 value = 0;
    for (int i = 0; i < most; i++) {
      u8 byte = in_.get<u8>();
      value |= u64{byte & 0x7fu} << 7 * i;
      if (!(byte & 0x80)) return in_.ok() ? std::optional(value) : std::nullopt;
    }
    return std::nullopt;
  }

  Reader in_;
  bool sound_ = true;
};

}  // namespace ckpt
