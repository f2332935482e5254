// SPDX-License-Identifier: Apache-2.0
#include "storage/write/written_stream.h"

#include <algorithm>

namespace ckpt::storage {
namespace {

constexpr u64 kMaxPlaces = kMaxIndexBytes / sizeof(u32);

}  // namespace

Result<> WrittenStream::set_mode(Mode next) {
  if (mode != Mode::Empty && mode != next)
    return fail("stream '{}' is closed, or is filled by another function", name);
  mode = next;
  return {};
}

Result<> WrittenStream::claim(u64 first, u64 offset, u64 bytes, u64 &places) {
  if (offset % kChunkBytes != 0)
    return fail("stream '{}': offset {} is not a multiple of {}", name, offset, kChunkBytes);
  if (offset > kMaxStreamBytes || bytes > kMaxStreamBytes - offset)
    return fail("stream '{}' would exceed {} bytes", name, kMaxStreamBytes);
  u64 count = (bytes + kChunkBytes - 1) / kChunkBytes;
  if (count > 0 && chunks.size() < first + count) {
    places += first + count - chunks.size();
    if (places > kMaxPlaces) return fail("the streams have more than {} chunks", kMaxPlaces);
    chunks.resize(first + count, kHole);
  }
  for (u64 i = first; i < first + count; ++i)
    if (chunks[i] != kHole)
      return fail("stream '{}' is filled twice at byte {}", name, i * kChunkBytes);
  for (u64 i = first; i < first + count; ++i) chunks[i] = kPending;
  size = std::max(size, offset + bytes);
  return {};
}

Result<> WrittenStream::check_filled(const ChunkStore &store) const {
  u64 left = size;
  for (size_t i = 0; i < chunks.size(); ++i) {
    u64 want = std::min<u64>(left, kChunkBytes);
    if (chunks[i] == kHole || store.raw_size(chunks[i]) != want)
      return fail("stream '{}' was not filled at byte {}", name, i * kChunkBytes);
    left -= want;
  }
  return {};
}

Piece WrittenStream::next_piece(bool is_end) {
  ByteView rest = tail.bytes();
  if (rest.empty()) return {};
  if (increment_cutter) return increment_cutter->next(rest, is_end);
  Piece piece;
  if (parent_stream) piece.similar = base_at(*parent_stream, tail_at);
  if (cut == Cut::Content)
    piece.size = content_cut.next(rest);
  else if (rest.size() >= kChunkBytes)
    piece.size = kChunkBytes;
  if (piece.size == 0 && is_end) piece.size = rest.size();
  return piece;
}

}  // namespace ckpt::storage
