// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/criu_file.h"

#include <algorithm>

namespace ckpt::tools {
namespace {

constexpr u32 kVarint = 0, kBlob = 2;  // wire types
constexpr size_t kHeadBytes = 2 * sizeof(u32);

void put_varint(Writer &out, u64 value) {
  for (; value >= 0x80; value >>= 7) out.put(static_cast<u8>(value | 0x80));
  out.put(static_cast<u8>(value));
}

}  // namespace

std::optional<ProtoMessage> ProtoMessage::parse(ByteView in) {
  ProtoMessage m;
  ProtoFields fields(in);
  while (std::optional<ProtoField> f = fields.next())
    m.fields_.push_back({f->number, f->type, f->value, Bytes(f->bytes.begin(), f->bytes.end())});
  return fields.sound() ? std::optional(std::move(m)) : std::nullopt;
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

std::vector<u64> ProtoMessage::numbers(u32 field) const {
  std::vector<u64> values;
  for (const Field &f : fields_)
    if (f.number == field && f.wire_type == kVarint) values.push_back(f.value);
  return values;
}

// In the place of the first one.
void ProtoMessage::set_numbers(u32 field, const std::vector<u64> &values) {
  std::vector<Field> fields;
  bool placed = false;
  for (Field &f : fields_) {
    if (f.number != field || f.wire_type != kVarint) {
      fields.push_back(std::move(f));
      continue;
    }
    for (u64 value : values)
      if (!placed) fields.push_back({field, kVarint, value, {}});
    placed = true;
  }
  fields_ = std::move(fields);
}

ByteView ProtoMessage::bytes(u32 field) const {
  const Field *f = find(field);
  return f ? ByteView(f->content) : ByteView();
}

void ProtoMessage::set_bytes(u32 field, ByteView value) {
  for (Field &f : fields_)
    if (f.number == field && f.wire_type == kBlob) f.content.assign(value.begin(), value.end());
}

void ProtoMessage::edit_each(u32 field, const std::function<void(ProtoMessage &)> &edit) {
  replace_each(field, [&](ProtoMessage m) {
    edit(m);
    return std::vector{std::move(m)};
  });
}

void ProtoMessage::replace_each(u32 field, const Replace &replace) {
  std::vector<Field> fields;
  for (Field &f : fields_) {
    std::optional<ProtoMessage> m;
    if (f.number == field && f.wire_type == kBlob) m = parse(f.content);
    if (!m) {
      fields.push_back(std::move(f));
      continue;
    }
    for (const ProtoMessage &r : replace(std::move(*m)))
      fields.push_back({f.number, f.wire_type, 0, r.encode()});
  }
  fields_ = std::move(fields);
}

Bytes edit_criu_file(Bytes file, const std::function<void(ProtoMessage &)> &edit) {
  Writer out;
  out.raw(file.data(), std::min(file.size(), kHeadBytes));
  bool understood = for_each_message(file, [&](ByteView content) {
    std::optional<ProtoMessage> m = ProtoMessage::parse(content);
    if (!m) return false;
    edit(*m);
    out.blob(m->encode());
    return true;
  });
  return understood ? out.take() : file;
}

bool for_each_message(ByteView file, const std::function<bool(ByteView)> &f) {
  Reader in(file);
  in.raw(kHeadBytes);
  while (in.ok() && !in.done()) {
    ByteView message = in.blob();
    if (!in.ok() || !f(message)) return false;
  }
  return in.ok();
}

}  // namespace ckpt::tools
