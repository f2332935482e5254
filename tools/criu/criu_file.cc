// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/criu_file.h"

#include <algorithm>

namespace ckpt::tools {
namespace {

constexpr u32 kVarint = 0, kFixed64 = 1, kBlob = 2, kFixed32 = 5;  // wire types
constexpr u64 kMaxKey = ~u32{0};                                   // field numbers have 29 bits
constexpr size_t kHeadBytes = 2 * sizeof(u32);

// Reads and drops a variable-length integer from the front.
std::optional<u64> take_varint(ByteView &in) {
  u64 value = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    u64 byte = std::to_integer<u64>(in.front());
    in = in.subspan(1);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<ByteView> take_bytes(ByteView &in, u64 size) {
  if (size > in.size()) return std::nullopt;
  ByteView taken = in.first(size);
  in = in.subspan(size);
  return taken;
}

void put_varint(Writer &out, u64 value) {
  for (; value >= 0x80; value >>= 7) out.put(static_cast<u8>(value | 0x80));
  out.put(static_cast<u8>(value));
}

std::optional<u64> content_size(u32 wire_type, ByteView &in) {
  if (wire_type == kBlob) return take_varint(in);
  if (wire_type == kFixed64) return 8;
  if (wire_type == kFixed32) return 4;
  return std::nullopt;
}

}  // namespace

std::optional<ProtoMessage> ProtoMessage::parse(ByteView in) {
  ProtoMessage m;
  while (!in.empty()) {
    std::optional<u64> key = take_varint(in);
    if (!key || *key > kMaxKey) return std::nullopt;
    Field f{static_cast<u32>(*key >> 3), static_cast<u32>(*key & 7), 0, {}};
    if (f.wire_type == kVarint) {
      std::optional<u64> value = take_varint(in);
      if (!value) return std::nullopt;
      f.value = *value;
    } else {
      std::optional<u64> size = content_size(f.wire_type, in);
      std::optional<ByteView> content = size ? take_bytes(in, *size) : std::nullopt;
      if (!content) return std::nullopt;
      f.content.assign(content->begin(), content->end());
    }
    m.fields_.push_back(std::move(f));
  }
  return m;
}

Bytes ProtoMessage::encode() const {
  Writer out;
  for (const Field &f : fields_) {
    put_varint(out, u64{f.number} << 3 | f.wire_type);
    if (f.wire_type == kVarint) put_varint(out, f.value);
    if (f.wire_type == kBlob) put_varint(out, f.content.size());
    out.raw(f.content.data(), f.content.size());
  }
  return out.take();
}

const ProtoMessage::Field *ProtoMessage::find(u32 field) const {
  auto it = std::find_if(fields_.begin(), fields_.end(),
                         [field](const Field &f) { return f.number == field; });
  return it == fields_.end() ? nullptr : &*it;
}

u64 ProtoMessage::number(u32 field) const {
  const Field *f = find(field);
  return f ? f->value : 0;
}

void ProtoMessage::set_number(u32 field, u64 value) {
  for (Field &f : fields_)
    if (f.number == field && f.wire_type == kVarint) f.value = value;
}

ByteView ProtoMessage::bytes(u32 field) const {
  const Field *f = find(field);
  return f ? ByteView(f->content) : ByteView();
}

void ProtoMessage::edit_each(u32 field, const std::function<void(ProtoMessage &)> &edit) {
  for (Field &f : fields_) {
    if (f.number != field || f.wire_type != kBlob) continue;
    std::optional<ProtoMessage> m = parse(f.content);
    if (!m) continue;
    edit(*m);
    f.content = m->encode();
  }
}

Bytes edit_criu_file(Bytes file, const std::function<void(ProtoMessage &)> &edit) {
  ByteView in(file);
  std::optional<ByteView> head = take_bytes(in, kHeadBytes);
  if (!head) return file;
  Writer out;
  out.raw(head->data(), head->size());
  while (!in.empty()) {
    u32 size = 0;
    std::optional<ByteView> length = take_bytes(in, sizeof size);
    if (length) std::memcpy(&size, length->data(), sizeof size);
    std::optional<ByteView> content = length ? take_bytes(in, size) : std::nullopt;
    std::optional<ProtoMessage> m = content ? ProtoMessage::parse(*content) : std::nullopt;
    if (!m) return file;
    edit(*m);
    out.blob(m->encode());
  }
  return out.take();
}

}  // namespace ckpt::tools
