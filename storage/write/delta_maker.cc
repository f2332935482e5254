// SPDX-License-Identifier: Apache-2.0
#include "storage/write/delta_maker.h"

namespace ckpt::storage {
namespace {

// A program that wrote all its memory is not asked for each chunk whether it did: reading the
// parent costs more than it saves then.
constexpr unsigned kMisses = 8, kTryEvery = 8;

// A delta must save half: the base is needed as well, for as long as the delta is.
u64 most_bytes(const ChunkEntry &base, size_t raw_size) {
  return u64{base.stored_size} * raw_size / base.raw_size / 2;
}

}  // namespace

std::optional<DeltaBase> base_at(const StreamEntry &stream, u64 offset) {
  if (offset >= stream.size) return std::nullopt;
  size_t i = stream.chunk_at(offset);
  return DeltaBase{stream.chunks[i], static_cast<u32>(offset - stream.starts[i])};
}

std::optional<DeltaMaker::Made> DeltaMaker::make(ByteView raw, DeltaBase at,
                                                 ChunkEncoder &encoder) {
  if (!parent_ || !is_worth_a_try()) return std::nullopt;
  const std::vector<ChunkEntry> &chunks = parent_->index().chunks;
  // Of a delta the base is the new one's base too: none stands on another delta.
  if (const ChunkEntry &like = chunks[at.chunk]; like.codec == Codec::Delta)
    at = {like.base, like.base_offset + at.offset};
  const ChunkEntry &entry = chunks[at.chunk];
  if (entry.codec == Codec::Zero || at.offset >= entry.raw_size) return std::nullopt;
  Result<ByteView> base = read_base(at.chunk);
  if (!base) return std::nullopt;  // damaged: then the chunk is stored whole
  std::optional<ChunkEncoder::Encoded> encoded =
      encoder.encode_delta(raw, base->subspan(at.offset), most_bytes(entry, raw.size()));
  misses_ = encoded ? 0 : misses_ + 1;
  if (!encoded) return std::nullopt;
  return Made{at, *encoded};
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
