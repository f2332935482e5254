// SPDX-License-Identifier: Apache-2.0
#include "fatbin/container.h"

#include <algorithm>
#include <array>

namespace ckpt::fatbin {
namespace {

constexpr u64 kAlignment = 8;

Failure damaged_entry(u64 at, const std::string &reason) {
  return fail("the entry at offset {} of the fat binary is damaged: {}", at, reason);
}

Compression compression_of(const EntryRecord &r) {
  if (r.compressed_bytes == 0) return Compression::None;
  if (r.flags & kFlagZstd) return Compression::Zstd;
  return r.flags & kFlagLz4 ? Compression::Lz4 : Compression::Unknown;
}

// A text in the header of the entry at `entry`, without trailing blanks.
Result<std::string> header_text(const Source &source, u64 entry, const EntryRecord &r, u32 at,
                                u32 bytes, HeaderBudget &budget) {
  if (!fits(at, bytes, r.header_bytes))
    return damaged_entry(entry, "a text lies outside of its header");
  if (bytes > budget.text_bytes)
    return damaged_entry(entry, fmt::format("the texts of all headers exceed the limit of {} bytes",
                                            kMaxHeaderTextBytes));
  budget.text_bytes -= bytes;
  std::string text(bytes, '\0');
  CKPT_CHECK(source.read(entry + at, std::as_writable_bytes(std::span(text))));
  text.resize(std::min(text.find('\0'), text.size()));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

Result<std::string> options_of(const Source &source, u64 at, const EntryRecord &r,
                               HeaderBudget &budget) {
  if (r.options_at < sizeof r) return std::string();
  if (!fits(r.options_at, sizeof(OptionsRecord), r.header_bytes))
    return damaged_entry(at, "its options lie outside of its header");
  CKPT_TRY(OptionsRecord o, source.record<OptionsRecord>(at + r.options_at));
  return header_text(source, at, r, o.text_at, o.text_bytes, budget);
}

// `room`: what the container has from the entry's start on.
Result<EntryRecord> read_entry_record(const Source &source, u64 at, u64 room) {
  if (room < sizeof(EntryRecord)) return damaged_entry(at, "its header is truncated");
  CKPT_TRY(EntryRecord r, source.record<EntryRecord>(at));
  if (r.header_bytes < sizeof r || r.header_bytes > room)
    return damaged_entry(at, fmt::format("its header claims {} bytes", r.header_bytes));
  u64 payload_room = room - r.header_bytes;
  if (r.padded_bytes > payload_room || r.compressed_bytes > r.padded_bytes)
    return damaged_entry(
        at, fmt::format("its payload claims {} bytes, but {} are left",
                        std::max<u64>(r.padded_bytes, r.compressed_bytes), payload_room));
  return r;
}

struct EntryWithEnd {
  Entry entry;
  u64 end;  // where the next one begins
};

Result<EntryWithEnd> read_entry(const Source &source, u64 at, u64 room, HeaderBudget &budget) {
  CKPT_TRY(EntryRecord r, read_entry_record(source, at, room));
  Entry e;
  e.kind = static_cast<Kind>(r.kind);
  e.compression = compression_of(r);
  e.arch = r.arch;
  e.flags = r.flags;
  e.header_at = at;
  e.at = at + r.header_bytes;
  e.stored_bytes = e.compression == Compression::None ? r.padded_bytes : r.compressed_bytes;
  e.bytes = e.compression == Compression::None ? r.padded_bytes : r.raw_bytes;
  if (r.name_at != 0) {
    CKPT_TRY(e.name, header_text(source, at, r, r.name_at, r.name_bytes, budget));
  }
  CKPT_TRY(e.options, options_of(source, at, r, budget));
  u64 end = e.at + r.padded_bytes;
  return EntryWithEnd{std::move(e), end};
}

// Skips the zeros that begin at `at`, in units of kAlignment.
Result<u64> skip_zeros(const Source &source, u64 at, u64 end) {
  if (end - at >= kAlignment) {  // usually there is no padding: one small read answers that
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

Result<> take_entry(HeaderBudget &budget) {
  if (budget.entries == 0)
    return fail("the fat binaries have more than {} entries, which is the limit", kMaxEntries);
  --budget.entries;
  return {};
}

Result<ContainerRecord> read_container_record(const Source &source, u64 at, u64 room) {
  if (room < sizeof(ContainerRecord)) return fail("the fat binary at offset {} is truncated", at);
  CKPT_TRY(ContainerRecord r, source.record<ContainerRecord>(at));
  if (r.magic != kContainerMagic) return fail("there is no fat binary at offset {}", at);
  if (r.version != kContainerVersion || r.header_bytes < sizeof r)
    return fail_with_hint(
        fmt::format("the fat binary at offset {} has the unsupported version {}, with a header of "
                    "{} bytes",
                    at, r.version, r.header_bytes),
        "it may come from a CUDA toolkit newer than 13.0");
  if (!fits(r.header_bytes, r.bytes, room))
    return fail("the fat binary at offset {} claims {} bytes, but {} are left", at, r.bytes, room);
  return r;
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

bool has_ptx(const Container &container) {
  return std::ranges::any_of(container.entries, [](const Entry &e) { return e.kind == Kind::Ptx; });
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

Result<Container> read_container(const Source &source, u64 at, u64 room, HeaderBudget &budget) {
  CKPT_TRY(ContainerRecord r, read_container_record(source, at, room));
  Container c{.at = at, .bytes = r.header_bytes + r.bytes};
  u64 end = at + c.bytes;
  for (u64 next = at + r.header_bytes; next < end;) {
    CKPT_CHECK(take_entry(budget));
    CKPT_TRY(EntryWithEnd e, read_entry(source, next, end - next, budget));
    c.entries.push_back(std::move(e.entry));
    next = e.end;
  }
  return c;
}

Result<std::vector<Container>> read_containers(const Source &source, u64 at, u64 bytes,
                                               HeaderBudget &budget) {
  std::vector<Container> out;
  u64 end = at + bytes;
  while (at < end) {
    CKPT_TRY(at, skip_zeros(source, at, end));
    if (at >= end) break;
    // An empty container takes 16 bytes of the file but more of memory, so it counts as well.
    CKPT_CHECK(take_entry(budget));
    CKPT_TRY(Container c, read_container(source, at, end - at, budget));
    at += c.bytes;
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace ckpt::fatbin
