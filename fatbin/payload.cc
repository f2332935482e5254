// SPDX-License-Identifier: Apache-2.0
#include "fatbin/payload.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>

#include "common/base/units.h"

namespace ckpt::fatbin {
namespace {

// Not a vector: what a header promises must cost nothing until it is there.
std::unique_ptr<std::byte[]> unwritten(u64 bytes) {
  return std::make_unique_for_overwrite<std::byte[]>(bytes);
}

Result<Payload> read_stored(const Source &source, const Entry &e) {
  if (ByteView there = source.look(e.at, e.stored_bytes); !there.empty()) return Payload(there);
  auto buffer = unwritten(e.stored_bytes);
  CKPT_CHECK(source.read(e.at, {buffer.get(), static_cast<size_t>(e.stored_bytes)}));
  return Payload(std::move(buffer), e.stored_bytes);
}

Failure cannot_decompress(const Entry &e, const std::string &why) {
  return fail("cannot decompress the {} entry of {} at offset {}: {}", name_of(e.kind), e.target(),
              e.at, why);
}

Result<size_t> unzstd(const Entry &e, ByteView stored, std::byte *into) {
  size_t n = ZSTD_decompress(into, e.bytes, stored.data(), stored.size());
  if (ZSTD_isError(n)) return cannot_decompress(e, ZSTD_getErrorName(n));
  return n;
}

Result<size_t> unlz4(const Entry &e, ByteView stored, std::byte *into) {
  if (std::max<u64>(stored.size(), e.bytes) > LZ4_MAX_INPUT_SIZE)
    return cannot_decompress(e, "LZ4 knows no such size");
  int n = LZ4_decompress_safe(reinterpret_cast<const char *>(stored.data()),
                              reinterpret_cast<char *>(into), static_cast<int>(stored.size()),
                              static_cast<int>(e.bytes));
  if (n < 0) return cannot_decompress(e, "these are no LZ4 data");
  return static_cast<size_t>(n);
}

Result<> check_size(const Entry &e, u64 most) {
  u64 bytes = std::max(e.bytes, e.stored_bytes);
  if (bytes <= most) return {};
  return fail_with_hint(
      fmt::format("the {} entry of {} at offset {} has {}, more than the {} that are allowed",
                  name_of(e.kind), e.target(), e.at, human_bytes(bytes), human_bytes(most)),
      "raise the limit if the file is trusted");
}

}  // namespace

std::string_view Payload::text() const {
  std::string_view all = ckpt::text(view_);
  return all.substr(0, std::min(all.find('\0'), all.size()));
}

Result<Payload> read_payload(const Source &source, const Entry &e, u64 most) {
  if (e.kind == Kind::LtoIr)
    return fail("the lto-ir entry of {} at offset {} cannot be decoded: its coding is not public",
                e.target(), e.at);
  CKPT_CHECK(check_size(e, most));
  if (e.compression == Compression::Unknown)
    return cannot_decompress(e, fmt::format("flags {:#x} name no known compression", e.flags));
  CKPT_TRY(Payload stored, read_stored(source, e));
  if (e.compression == Compression::None) return stored;
  auto raw = unwritten(e.bytes);
  CKPT_TRY(size_t n, e.compression == Compression::Zstd ? unzstd(e, stored.bytes(), raw.get())
                                                        : unlz4(e, stored.bytes(), raw.get()));
  if (n != e.bytes)
    return cannot_decompress(e, fmt::format("{} bytes came out instead of {}", n, e.bytes));
  return Payload(std::move(raw), n);
}

}  // namespace ckpt::fatbin
