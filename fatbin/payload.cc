// SPDX-License-Identifier: Apache-2.0
#include "fatbin/payload.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>

#include "common/base/units.h"

namespace ckpt::fatbin {
namespace {

// Not a vector, which would write zeros: pages that a header claims and that no payload fills must
// cost no memory.
std::unique_ptr<std::byte[]> uninitialized(u64 bytes) {
  return std::make_unique_for_overwrite<std::byte[]>(bytes);
}

Result<Payload> read_stored(const Source &source, const Entry &e) {
  if (ByteView bytes = source.in_place(e.at, e.stored_bytes); !bytes.empty()) return Payload(bytes);
  auto buffer = uninitialized(e.stored_bytes);
  CKPT_CHECK(source.read(e.at, {buffer.get(), static_cast<size_t>(e.stored_bytes)}));
  return Payload(std::move(buffer), e.stored_bytes);
}

Failure cannot_decompress(const Entry &e, const std::string &reason) {
  return fail("cannot decompress the {} entry of {} at offset {}: {}", name_of(e.kind), e.target(),
              e.at, reason);
}

Result<size_t> decompress_zstd(const Entry &e, ByteView stored, std::byte *into) {
  size_t n = ZSTD_decompress(into, e.bytes, stored.data(), stored.size());
  if (ZSTD_isError(n)) return cannot_decompress(e, ZSTD_getErrorName(n));
  return n;
}

Result<size_t> decompress_lz4(const Entry &e, ByteView stored, std::byte *into) {
  if (std::max<u64>(stored.size(), e.bytes) > LZ4_MAX_INPUT_SIZE)
    return cannot_decompress(e, "LZ4 does not support blocks of this size");
  int n = LZ4_decompress_safe(reinterpret_cast<const char *>(stored.data()),
                              reinterpret_cast<char *>(into), static_cast<int>(stored.size()),
                              static_cast<int>(e.bytes));
  if (n < 0) return cannot_decompress(e, "not a valid LZ4 block");
  return static_cast<size_t>(n);
}

Result<> check_size(const Entry &e, u64 max_bytes) {
  u64 bytes = std::max(e.bytes, e.stored_bytes);
  if (bytes <= max_bytes) return {};
  return fail_with_hint(
      fmt::format("the {} entry of {} at offset {} has {}, more than the limit of {}",
                  name_of(e.kind), e.target(), e.at, human_bytes(bytes), human_bytes(max_bytes)),
      "raise the limit if you trust the file");
}

}  // namespace

std::string_view Payload::text() const {
  std::string_view all = ckpt::text(view_);
  return all.substr(0, std::min(all.find('\0'), all.size()));
}

Result<Payload> read_payload(const Source &source, const Entry &e, u64 max_bytes) {
  if (e.kind == Kind::LtoIr)
    return fail(
        "the lto-ir entry of {} at offset {} cannot be examined: its encoding is not public",
        e.target(), e.at);
  CKPT_CHECK(check_size(e, max_bytes));
  if (e.compression == Compression::Unknown)
    return cannot_decompress(e, fmt::format("its flags {:#x} name no known compression", e.flags));
  CKPT_TRY(Payload stored, read_stored(source, e));
  if (e.compression == Compression::None) return stored;
  auto raw = uninitialized(e.bytes);
  CKPT_TRY(size_t n, e.compression == Compression::Zstd
                         ? decompress_zstd(e, stored.bytes(), raw.get())
                         : decompress_lz4(e, stored.bytes(), raw.get()));
  if (n != e.bytes)
    return cannot_decompress(
        e, fmt::format("it has {} bytes instead of the {} in its header", n, e.bytes));
  return Payload(std::move(raw), n);
}

}  // namespace ckpt::fatbin
