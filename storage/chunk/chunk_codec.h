// SPDX-License-Identifier: Apache-2.0
//
// One chunk: its address, its stored form, and the way back. Both classes reuse a zstd context and
// a buffer for every chunk, so each thread keeps one of each.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "common/base/result.h"
#include "storage/format/format.h"
#include "storage/format/key.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace ckpt::storage {

bool all_zero(ByteView data);
// `seed` is Index::seed.
ChunkAddress chunk_address(ByteView raw, u64 seed);
u64 stored_checksum(ByteView stored);
// to[i] ^= from[i], up to the end of the shorter one.
void xor_into(std::span<std::byte> to, ByteView from);

class ChunkEncoder {
 public:
  struct Encoded {
    Codec codec;
    ByteView stored;  // in `raw` or in this encoder; valid until the next call
  };
  explicit ChunkEncoder(int zstd_level);
  ~ChunkEncoder();
  // Codec::Zstd if that saves at least 1/64, else Codec::Raw. `raw` has 1 to kMaxChunkBytes bytes
  // and is not all zeros.
  Result<Encoded> encode(ByteView raw);
  // `raw` as its difference from `base`. Nothing if that needs `limit` bytes or more.
  std::optional<Encoded> encode_delta(ByteView raw, ByteView base, size_t limit);
  // The same, sealed, in a buffer of this encoder; valid until the next call.
  Encoded seal(const Key &key, const ChunkAddress &address, u32 raw_size, const Encoded &encoded);

 private:
  Result<size_t> compress(ByteView raw);
  bool differs_little(ByteView raw, ByteView base);
  bool looks_random(ByteView raw);

  ZSTD_CCtx_s *context_;
  std::unique_ptr<std::byte[]> buffer_;
  size_t capacity_ = 0;
  Bytes sealed_, difference_;
};

class ChunkDecoder {
 public:
  ChunkDecoder();
  ~ChunkDecoder();
  // Fills `raw` (entry.raw_size bytes) from the stored bytes. Never writes beyond `raw`, whatever
  // size the frame declares. Compares neither the checksum nor the address.
  Result<> decode(const ChunkEntry &entry, ByteView stored, std::span<std::byte> raw);

 private:
  ZSTD_DCtx_s *context_;
};

}  // namespace ckpt::storage
