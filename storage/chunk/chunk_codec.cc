// SPDX-License-Identifier: Apache-2.0
#include "storage/chunk/chunk_codec.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "storage/format/hash.h"

namespace ckpt::storage {

// A range is all zeros exactly if it starts with 16 zeros and equals itself shifted by 16 bytes. So
// memcmp() of the C library, which is vectorized, does the work, and stops at the first difference.
bool all_zero(ByteView data) {
  static constexpr char zeros[16] = {};
  size_t head = std::min(data.size(), sizeof zeros);
  if (std::memcmp(data.data(), zeros, head) != 0) return false;
  return data.size() == head ||
         std::memcmp(data.data(), data.data() + head, data.size() - head) == 0;
}

ChunkAddress chunk_address(ByteView raw, u64 seed) {
  XXH128_hash_t h = xxh3_128(raw, seed);
  return {h.low64, h.high64};
}

u64 stored_checksum(ByteView stored) { return xxh3_64(stored); }

void xor_into(std::span<std::byte> to, ByteView from) {
  size_t n = std::min(to.size(), from.size());
  size_t i = 0;
  for (; i + sizeof(u64) <= n; i += sizeof(u64)) {
    u64 a, b;
    std::memcpy(&a, &to[i], sizeof a);
    std::memcpy(&b, &from[i], sizeof b);
    a ^= b;
    std::memcpy(&to[i], &a, sizeof a);
  }
  for (; i < n; ++i) to[i] ^= from[i];
}

namespace {

bool worth_it(size_t stored, size_t raw) { return stored < raw - raw / 64; }

}  // namespace

ChunkEncoder::ChunkEncoder(int zstd_level) : context_(ZSTD_createCCtx()) {
  if (context_) ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, zstd_level);
}

ChunkEncoder::~ChunkEncoder() { ZSTD_freeCCtx(context_); }

Result<ChunkEncoder::Encoded> ChunkEncoder::encode(ByteView raw) {
  if (!context_) return fail("not enough memory to compress");
  if (looks_random(raw)) return Encoded{Codec::Raw, raw};
  CKPT_TRY(size_t n, compress(raw));
  if (worth_it(n, raw.size())) return Encoded{Codec::Zstd, {buffer_.get(), n}};
  return Encoded{Codec::Raw, raw};
}

Result<size_t> ChunkEncoder::compress(ByteView raw) {
  size_t bound = ZSTD_compressBound(raw.size());
  if (capacity_ < bound) {
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(bound);
    capacity_ = bound;
  }
  size_t n = ZSTD_compress2(context_, buffer_.get(), capacity_, raw.data(), raw.size());
  if (ZSTD_isError(n)) return fail("cannot compress: {}", ZSTD_getErrorName(n));
  return n;
}

std::optional<ChunkEncoder::Encoded> ChunkEncoder::encode_delta(ByteView raw, ByteView base,
                                                                size_t limit) {
  if (!context_ || !differs_little(raw, base)) return std::nullopt;
  difference_.assign(raw.begin(), raw.end());
  xor_into(difference_, base);
  Result<size_t> n = compress(difference_);
  if (!n || *n >= std::min(limit, raw.size())) return std::nullopt;
  return Encoded{Codec::Delta, {buffer_.get(), *n}};
}

// Whether at least half of the pages are equal. Stops early if they are not, to leave the time for
// compressing the chunk itself.
bool ChunkEncoder::differs_little(ByteView raw, ByteView base) {
  constexpr size_t kPage = 4096;
  size_t changed = 0, most = raw.size() / kPage / 2 + 1;
  for (size_t at = 0; at < raw.size(); at += kPage) {
    size_t n = std::min(kPage, raw.size() - at);
    bool same = at + n <= base.size() && std::memcmp(&raw[at], &base[at], n) == 0;
    if (!same && ++changed > most) return false;
  }
  return true;
}

ChunkEncoder::Encoded ChunkEncoder::seal(const Key &key, const ChunkAddress &address, u32 raw_size,
                                         const Encoded &encoded) {
  size_t size = encoded.stored.size() + kSealBytes;
  if (sealed_.size() < size) sealed_.resize(size);
  std::span<std::byte> sealed = std::span(sealed_).first(size);
  key.seal(seal_context(address, raw_size, encoded.codec), encoded.stored, sealed);
  return {encoded.codec, sealed};
}

// Compressing random bytes only to discard the result would take a third of the time of storing
// them. Four samples spread over the chunk cost a sixteenth of that. If any of them can be
// compressed, the chunk is compressed.
bool ChunkEncoder::looks_random(ByteView raw) {
  constexpr size_t kSamples = 4, kMaxSampleBytes = 4096, kMinChunk = 64u << 10;
  if (raw.size() < kMinChunk) return false;
  size_t sample = std::min(kMaxSampleBytes, raw.size() / (16 * kSamples));
  for (size_t i = 0; i < kSamples; ++i) {
    Result<size_t> n = compress(raw.subspan(i * (raw.size() / kSamples), sample));
    if (!n || worth_it(*n, sample)) return false;
  }
  return true;
}

ChunkDecoder::ChunkDecoder() : context_(ZSTD_createDCtx()) {}

ChunkDecoder::~ChunkDecoder() { ZSTD_freeDCtx(context_); }

Result<> ChunkDecoder::decode(const ChunkEntry &entry, ByteView stored, std::span<std::byte> raw) {
  if (entry.codec == Codec::Zero) {
    std::memset(raw.data(), 0, raw.size());
    return {};
  }
  if (entry.codec == Codec::Raw) {
    if (stored.data() != raw.data()) std::memcpy(raw.data(), stored.data(), raw.size());
    return {};
  }
  if (!context_) return fail("not enough memory to decompress");
  size_t n = ZSTD_decompressDCtx(context_, raw.data(), raw.size(), stored.data(), stored.size());
  if (ZSTD_isError(n)) return fail("cannot decompress: {}", ZSTD_getErrorName(n));
  if (n != raw.size()) return fail("decompresses to {} bytes instead of {}", n, raw.size());
  return {};
}

}  // namespace ckpt::storage
