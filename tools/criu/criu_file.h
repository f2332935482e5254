// SPDX-License-Identifier: Apache-2.0
//
// CRIU's image files: two magic numbers, then messages of protocol buffers, each after its length
// (u32). CRIU's images/*.proto defines the fields. A restore changes a few of them; all others are
// kept unchanged, in their order.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/proto_fields.h"

namespace ckpt::tools {

// A message of protocol buffers (protobuf.dev, "Encoding").
class ProtoMessage {
 public:
  static std::optional<ProtoMessage> parse(ByteView in);
  Bytes encode() const;

  // An integer field; 0 if it is absent.
  u64 number(u32 field) const;
  void set_number(u32 field, u64 value);  // does nothing if it is absent
  // All values of a repeated integer field that is not packed.
  std::vector<u64> numbers(u32 field) const;
  void set_numbers(u32 field, const std::vector<u64> &values);  // does nothing if it is absent
  // A string, or an embedded message as bytes; empty if it is absent.
  ByteView bytes(u32 field) const;
  void set_bytes(u32 field, ByteView value);  // does nothing if it is absent
  // Passes each embedded message of this field to `edit`.
  void edit_each(u32 field, const std::function<void(ProtoMessage &)> &edit);
  // Puts what `replace` returns in the place of each embedded message of this field.
  using Replace = std::function<std::vector<ProtoMessage>(ProtoMessage)>;
  void replace_each(u32 field, const Replace &replace);

 private:
  struct Field {
    u32 number;
    u32 wire_type;
    u64 value;  // of an integer; the bytes of the others are in `content`
    Bytes content;
  };
  const Field *find(u32 field) const;

  std::vector<Field> fields_;
};

// Passes each message of a file to `f`, until it returns false. False if `f` did, or if the file
// cannot be parsed.
bool for_each_message(ByteView file, const std::function<bool(ByteView)> &f);
// Passes each message of a file to `edit`. Returns the file unchanged if it cannot be parsed.
Bytes edit_criu_file(Bytes file, const std::function<void(ProtoMessage &)> &edit);

}  // namespace ckpt::tools
