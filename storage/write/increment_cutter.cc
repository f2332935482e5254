// SPDX-License-Identifier: Apache-2.0
#include "storage/write/increment_cutter.h"

#include <algorithm>

namespace ckpt::storage {
namespace {

constexpr size_t kMinPieceBytes = 32u << 10;

}  // namespace

IncrementCutter::IncrementCutter(const StreamEntry &parent_stream, const Index &parent)
    : parent_stream_(parent_stream), parent_(parent) {
  for (size_t i = 0; i < parent_stream.chunks.size(); ++i) {
    const ChunkEntry &chunk = parent.chunks[parent_stream.chunks[i]];
    auto [it, is_new] = places_.try_emplace(chunk.address, Place{i});
    if (!is_new) it->second.is_only = false;
  }
}

// The offset in the parent's stream that corresponds to our next byte.
std::optional<u64> IncrementCutter::parent_offset() const {
  u64 offset = at_ - shift_;
  return offset < parent_stream_.size ? std::optional(offset) : std::nullopt;
}

// The chunk that comes next if nothing has changed.
IncrementCutter::Expected IncrementCutter::expected() const {
  std::optional<u64> offset = parent_offset();
  if (!offset) return {};
  size_t i = parent_stream_.chunk_at(*offset);
  u32 chunk = parent_stream_.chunks[i];
  u32 size = parent_.chunks[chunk].raw_size;
  if (parent_stream_.starts[i] != *offset || size > kMaxCutBytes) return {};
  return {chunk, size};
}

bool IncrementCutter::matches(ByteView data, const Expected &expected) const {
  if (expected.size == 0 || expected.size > data.size()) return false;
  return chunk_address(data.first(expected.size), parent_.seed) ==
         parent_.chunks[expected.chunk].address;
}

Piece IncrementCutter::next(ByteView data, bool is_end) {
  if (data.empty()) return {};
  if (to_split_ > 0) return split_at_edges(data, false);
  if (!mismatch_) {
    Expected e = expected();
    if (e.size > data.size() && !is_end) return {};
    if (matches(data, e)) return emit({e.size, e.chunk, {}});
    mismatch_ = true;
  }
  return cut_by_content(data, is_end);
}

Piece IncrementCutter::cut_by_content(ByteView data, bool is_end) {
  size_t size = content_.next(data);
  if (size == 0 && !is_end) return {};
  if (size == 0) size = data.size();
  if (std::optional<u32> known = find(data.first(size))) return emit({size, known, {}});
  to_split_ = size;
  return split_at_edges(data, true);
}

// `is_new`: the first to_split_ bytes as a whole are not a chunk of the parent.
Piece IncrementCutter::split_at_edges(ByteView data, bool is_new) {
  Piece piece{distance_to_edge(), {}, {}};
  if (!is_new || piece.size < to_split_) piece.known = find(data.first(piece.size));
  to_split_ -= piece.size;
  if (std::optional<u64> offset = parent_offset(); offset && !piece.known)
    piece.similar = base_at(parent_stream_, *offset);
  return emit(piece);
}

// The distance to the next end of a parent's chunk that leaves two pieces that are large enough.
size_t IncrementCutter::distance_to_edge() const {
  std::optional<u64> offset = parent_offset();
  if (!offset) return to_split_;
  for (size_t i = parent_stream_.chunk_at(*offset) + 1; i < parent_stream_.starts.size(); ++i) {
    u64 size = parent_stream_.starts[i] - *offset;
    if (size + kMinPieceBytes > to_split_) break;
    if (size >= kMinPieceBytes) return size;
  }
  return to_split_;
}

// The chunk of the parent's stream that is equal to `chunk`. Sets the shift if it is there only
// once.
std::optional<u32> IncrementCutter::find(ByteView chunk) {
  auto it = places_.find(chunk_address(chunk, parent_.seed));
  if (it == places_.end()) return std::nullopt;
  if (it->second.is_only) shift_ = at_ - parent_stream_.starts[it->second.first];
  return parent_stream_.chunks[it->second.first];
}

Piece IncrementCutter::emit(Piece piece) {
  at_ += piece.size;
  mismatch_ = false;
  return piece;
}

}  // namespace ckpt::storage
