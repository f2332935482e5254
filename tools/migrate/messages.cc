// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/messages.h"

#include "storage/format/format.h"
#include "tools/migrate/move_record.h"

namespace ckpt::tools {
namespace {

constexpr size_t kMaxText = 4096;         // of a name or path
constexpr size_t kMaxFailure = 1u << 20;  // with all reasons
constexpr u32 kMaxPatience = 86400;

std::string text_of(Reader &in, bool &sound) {
  std::string_view text = in.str();
  sound = sound && text.size() <= kMaxText && text.find('\0') == text.npos;
  return std::string(text);
}

bool flag_of(Reader &in, bool &sound) {
  u8 value = in.get<u8>();
  sound = sound && value <= 1;
  return value == 1;
}

}  // namespace

Failure malformed(const char *message) {
  return fail("the other machine has sent a malformed message ({})", message);
}

Bytes encode(const Error &failure) {
  Writer w;
  w.str(std::string_view(failure.what).substr(0, kMaxFailure / 2));
  w.str(std::string_view(failure.hint).substr(0, kMaxFailure / 4));
  return w.take();
}

Error parse_failure(ByteView body) {
  Reader in(body);
  Error e{std::string(in.str()), std::string(in.str())};
  if (!in.done() || body.size() > kMaxFailure) return {"it has failed", ""};
  return e;
}

Bytes encode(const Hello &m) {
  Writer w;
  w.put(m.version).str(m.ckpt_version).str(m.number).str(m.host).put(m.patience_seconds);
  return w.take();
}

// A later version may have more fields.
std::optional<Hello> parse_hello(ByteView body) {
  Reader in(body);
  bool sound = true;
  Hello m;
  m.version = in.get<u32>();
  m.ckpt_version = text_of(in, sound);
  m.number = text_of(in, sound);
  m.host = text_of(in, sound);
  m.patience_seconds = in.get<u32>();
  sound = sound && is_move_number(m.number) && m.patience_seconds > 0 &&
          m.patience_seconds <= kMaxPatience;
  return in.ok() && sound ? std::optional(std::move(m)) : std::nullopt;
}

Bytes encode(const Welcome &m) {
  Writer w;
  w.put(m.version).str(m.ckpt_version).str(m.host);
  return w.take();
}

std::optional<Welcome> parse_welcome(ByteView body) {
  Reader in(body);
  bool sound = true;
  Welcome m;
  m.version = in.get<u32>();
  m.ckpt_version = text_of(in, sound);
  m.host = text_of(in, sound);
  return in.ok() && sound ? std::optional(std::move(m)) : std::nullopt;
}

Bytes encode(const Prepare &m) {
  Writer w;
  w.str(m.needs).put(m.bytes).str(m.device).str(m.key_file).str(m.output);
  w.put(u8{m.shared_key}).put(u8{m.keep}).put(u8{m.ignore_processor});
  return w.take();
}

std::optional<Prepare> parse_prepare(ByteView body) {
  Reader in(body);
  bool sound = true;
  Prepare m;
  m.needs = in.str();
  m.bytes = in.get<u64>();
  m.device = text_of(in, sound);
  m.key_file = text_of(in, sound);
  m.output = text_of(in, sound);
  m.shared_key = flag_of(in, sound);
  m.keep = flag_of(in, sound);
  m.ignore_processor = flag_of(in, sound);
  sound = sound && m.needs.size() <= kMaxNeedsBytes;
  return in.done() && sound ? std::optional(std::move(m)) : std::nullopt;
}

Bytes encode(const ImageOffer &m) {
  Writer w;
  w.put(m.round).put(m.index_bytes);
  return w.take();
}

std::optional<ImageOffer> parse_image(ByteView body) {
  Reader in(body);
  ImageOffer m{in.get<u32>(), in.get<u64>()};
  bool sound = m.round < storage::kMaxParents && m.index_bytes > 0 &&
               m.index_bytes <= storage::kMaxIndexBytes;
  return in.done() && sound ? std::optional(m) : std::nullopt;
}

std::optional<u32> parse_begin_ahead(ByteView body) {
  Reader in(body);
  u32 round = in.get<u32>();
  return in.done() && round < storage::kMaxParents ? std::optional(round) : std::nullopt;
}

std::optional<Piece> parse_piece(ByteView body) {
  Reader in(body);
  Piece m{in.get<u64>(), in.raw(in.left())};
  bool sound = m.offset >= storage::kChunksHeaderBytes && m.offset <= storage::kMaxStreamBytes &&
               !m.stored.empty();
  return in.ok() && sound ? std::optional(m) : std::nullopt;
}

Bytes WantList::encode() const {
  Writer w;
  w.put(count_).raw(bits_.data(), bits_.size());
  return w.take();
}

std::optional<WantList> WantList::parse(ByteView body) {
  Reader in(body);
  u32 count = in.get<u32>();
  if (!in.ok() || count > kMaxWanted || in.left() != (size_t{count} + 7) / 8) return std::nullopt;
  WantList list(count);
  ByteView bits = in.raw(in.left());
  for (u32 i = 0; i < count; i++)
    if ((std::to_integer<u8>(bits[i / 8]) >> (i % 8)) & 1) list.set(i);
  return list;
}

Bytes encode(const Stored &m) {
  Writer w;
  w.put(m.chunks).put(m.had_chunks);
  return w.take();
}

std::optional<Stored> parse_stored(ByteView body) {
  Reader in(body);
  Stored m{in.get<u64>(), in.get<u64>()};
  return in.done() && m.had_chunks <= m.chunks ? std::optional(m) : std::nullopt;
}

Bytes encode(const Running &m) { return Writer().put(m.pid).take(); }

std::optional<Running> parse_running(ByteView body) {
  Reader in(body);
  Running m{in.get<i32>()};
  return in.done() && m.pid > 0 ? std::optional(m) : std::nullopt;
}

Bytes encode(const TakingState &m) {
  Writer w;
  w.put(static_cast<u8>(m.taking)).put(i32{m.pid});
  return w.take();
}

std::optional<TakingState> parse_state(ByteView body) {
  Reader in(body);
  u8 taking = in.get<u8>();
  TakingState m{static_cast<Taking>(taking), in.get<i32>()};
  bool sound = taking <= static_cast<u8>(Taking::Failed) && m.pid >= 0;
  return in.done() && sound ? std::optional(m) : std::nullopt;
}

}  // namespace ckpt::tools
