// SPDX-License-Identifier: Apache-2.0
#include "fatbin/container.h"

#include <algorithm>
#include <array>

namespace ckpt::fatbin {
namespace {

constexpr u64 kAlignment = 8;

Failure broken(u64 at, const std::string &why) {
  return fail("the entry at offset {} of the fat binary is damaged: {}", at, why);
}

Compression compression_of(const EntryRecord &r) {
  if (r.compressed_bytes == 0) return Compression::None;
  if (r.flags & kFlagZstd) return Compression::Zstd;
  return r.flags & kFlagLz4 ? Compression::Lz4 : Compression::Unknown;
}

// A text in the entry's own header.
Result<std::string> header_text(const Source &source, u64 entry, const EntryRecord &r, u32 at,
                                u32 bytes, HeaderBudget &left) {
  if (at > r.header_bytes || bytes > r.header_bytes - at)
    return broken(entry, "a text in its header reaches beyond it");
  if (bytes > left.text_bytes) return broken(entry, "the headers have too much text");
  left.text_bytes -= bytes;
  std::string text(bytes, '\0');
  CKPT_CHECK(source.read(entry + at, std::as_writable_bytes(std::span(text))));
  text.resize(std::min(text.find('\0'), text.size()));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

Result<std::string> options_of(const Source &source, u64 at, const EntryRecord &r,
                               HeaderBudget &left) {
  if (r.options_at < sizeof r) return std::string();
  if (r.options_at > r.header_bytes || r.header_bytes - r.options_at < sizeof(OptionsRecord))
    return broken(at, "its options lie outside of its header");
  CKPT_TRY(OptionsRecord o, source.record<OptionsRecord>(at + r.options_at));
  return header_text(source, at, r, o.text_at, o.text_bytes, left);
}

// The entry at `at`, and in `next` where it ends.
Result<Entry> read_entry(const Source &source, u64 at, u64 end, HeaderBudget &left, u64 &next) {
  if (end - at < sizeof(EntryRecord)) return broken(at, "its header is cut short");
  CKPT_TRY(EntryRecord r, source.record<EntryRecord>(at));
  if (r.header_bytes < sizeof r || r.header_bytes > end - at)
    return broken(at, fmt::format("its header has {} bytes", r.header_bytes));
  u64 room = end - at - r.header_bytes;
  if (r.padded_bytes > room || r.compressed_bytes > r.padded_bytes)
    return broken(at, fmt::format("its payload has {} bytes where there are {}",
                                  std::max<u64>(r.padded_bytes, r.compressed_bytes), room));
  Entry e;
  e.kind = static_cast<Kind>(r.kind);
  e.compression = compression_of(r);
  e.arch = r.arch;
  e.flags = r.flags;
  e.at = at + r.header_bytes;
  e.stored_bytes = e.compression == Compression::None ? r.padded_bytes : r.compressed_bytes;
  e.bytes = e.compression == Compression::None ? r.padded_bytes : r.raw_bytes;
  if (r.name_at != 0) {
    CKPT_TRY(e.name, header_text(source, at, r, r.name_at, r.name_bytes, left));
  }
  CKPT_TRY(e.options, options_of(source, at, r, left));
  next = e.at + r.padded_bytes;
  return e;
}

// Where the zeros that begin at `at` end, to a multiple of kAlignment.
Result<u64> skip_zeros(const Source &source, u64 at, u64 end) {
  if (end - at >= kAlignment) {  // mostly there are none
    CKPT_TRY(u64 first, source.record<u64>(at));
    if (first != 0) return at;
  }
  std::array<std::byte, 64u << 10> block;
  while (at < end) {
    size_t n = static_cast<size_t>(std::min<u64>(block.size(), end - at));
    CKPT_CHECK(source.read(at, std::span(block).first(n)));
    auto it = std::find_if(block.begin(), block.begin() + n,
                           [](std::byte b) { return b != std::byte{}; });
    u64 zeros = static_cast<u64>(it - block.begin());
    if (zeros < n) return at + zeros / kAlignment * kAlignment;
    at += n;
  }
  return end;
}

}  // namespace

std::string Entry::target() const {
  const char *prefix = kind == Kind::Elf ? "sm_" : "compute_";
  const char *suffix = flags & kFlagArchSpecific ? "a" : flags & kFlagFamilySpecific ? "f" : "";
  return fmt::format("{}{}{}", prefix, arch, suffix);
}

bool Entry::is_unit() const {
  return kind == Kind::LtoIr || options.find("--compile-only") != std::string::npos;
}

const char *name_of(Kind kind) {
  switch (kind) {
    case Kind::Ptx: return "ptx";
    case Kind::Elf: return "elf";
    case Kind::LtoIr: return "lto-ir";
  }
  return "unknown";
}

const char *name_of(Compression compression) {
  switch (compression) {
    case Compression::None: return "raw";
    case Compression::Lz4: return "lz4";
    case Compression::Zstd: return "zstd";
    case Compression::Unknown: break;
  }
  return "unknown";
}

Result<Container> read_container(const Source &source, u64 at, u64 room, HeaderBudget &left) {
  if (room < sizeof(ContainerRecord)) return fail("the fat binary at offset {} is cut short", at);
  CKPT_TRY(ContainerRecord r, source.record<ContainerRecord>(at));
  if (r.magic != kContainerMagic) return fail("there is no fat binary at offset {}", at);
  if (r.version != kContainerVersion || r.header_bytes < sizeof r)
    return fail_with_hint(
        fmt::format("the fat binary at offset {} has version {} and a header of {} bytes, of which "
                    "nothing is known",
                    at, r.version, r.header_bytes),
        "it may come from a newer CUDA toolkit than 13.0");
  if (r.header_bytes > room || r.bytes > room - r.header_bytes)
    return fail("the fat binary at offset {} wants {} bytes where {} are left", at, r.bytes, room);
  Container c{.at = at, .bytes = r.header_bytes + r.bytes};
  u64 end = at + c.bytes;
  for (u64 next = at + r.header_bytes; next < end;) {
    if (left.entries == 0) return fail("a fat binary of more than {} entries", kMaxEntries);
    --left.entries;
    CKPT_TRY(Entry e, read_entry(source, next, end, left, next));
    c.entries.push_back(std::move(e));
  }
  return c;
}

Result<std::vector<Container>> read_containers(const Source &source, u64 at, u64 bytes,
                                               HeaderBudget &left) {
  std::vector<Container> out;
  u64 end = at + bytes;
  while (at < end) {
    CKPT_TRY(at, skip_zeros(source, at, end));
    if (at >= end) break;
    // An empty container costs 16 bytes of file but more of memory.
    if (left.entries == 0) return fail("more than {} fat binaries and entries", kMaxEntries);
    --left.entries;
    CKPT_TRY(Container c, read_container(source, at, end - at, left));
    at += c.bytes;
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace ckpt::fatbin
