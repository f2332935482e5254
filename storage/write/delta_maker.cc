// SPDX-License-Identifier: Apache-2.0
#include "storage/write/delta_maker.h"

namespace ckpt::storage {
namespace {

constexpr unsigned kMisses = 8, kTryEvery = 8;

// Half of the stored bytes that the base needs for as many raw bytes.
u64 size_limit(const ChunkEntry &base, size_t raw_size) {
  return u64{base.stored_size} * raw_size / base.raw_size / 2;
}

}  // namespace

std::optional<DeltaBase> base_at(const StreamEntry &stream, u64 offset) {
  if (offset >= stream.size) return std::nullopt;
  size_t i = stream.chunk_at(offset);
  return DeltaBase{stream.chunks[i], static_cast<u32>(offset - stream.starts[i])};
}

std::optional<EncodedChunk> DeltaMaker::make(ByteView raw, DeltaBase similar,
                                             ChunkEncoder &encoder) {
  if (!parent_ || !is_worth_a_try()) return std::nullopt;
  const std::vector<ChunkEntry> &chunks = parent_->index().chunks;
  if (const ChunkEntry &c = chunks[similar.chunk]; c.codec == Codec::Delta)
    similar = {c.base, c.base_offset + similar.offset};
  const ChunkEntry &entry = chunks[similar.chunk];
  if (entry.codec == Codec::Zero || similar.offset >= entry.raw_size) return std::nullopt;
  Result<ByteView> base = read_base(similar.chunk);
  if (!base) return std::nullopt;  // damaged: the chunk is stored whole
  std::optional<ChunkEncoder::Encoded> encoded =
      encoder.encode_delta(raw, base->subspan(similar.offset), size_limit(entry, raw.size()));
  misses_ = encoded ? 0 : misses_ + 1;
  if (!encoded) return std::nullopt;
  return EncodedChunk{*encoded, similar};
}

bool DeltaMaker::is_worth_a_try() {
  if (misses_ < kMisses || misses_ % kTryEvery == 0) return true;
  ++misses_;
  return false;
}

Result<ByteView> DeltaMaker::read_base(u32 chunk) {
  if (cached_ == chunk) return ByteView(base_);
  cached_.reset();
  base_.resize(parent_->index().chunks[chunk].raw_size);
  CKPT_CHECK(parent_->read_chunk(chunk, base_));
  cached_ = chunk;
  return ByteView(base_);
}

}  // namespace ckpt::storage
