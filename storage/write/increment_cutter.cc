// SPDX-License-Identifier: Apache-2.0
#include "storage/write/increment_cutter.h"

#include <algorithm>

namespace ckpt::storage {
namespace {

// The parent's edges make no pieces smaller than this, or streams would crumble from image to
// image.
constexpr size_t kLeastPieceBytes = 32u << 10;

}  // namespace

IncrementCutter::IncrementCutter(const StreamEntry &theirs, const Index &parent)
    : theirs_(theirs), parent_(parent) {
  for (size_t i = 0; i < theirs.chunks.size(); ++i) {
    auto [it, is_new] = places_.try_emplace(parent.chunks[theirs.chunks[i]].address, Place{i});
    if (!is_new) it->second.is_only = false;
  }
}

// Where our next byte would be in the parent's stream.
std::optional<u64> IncrementCutter::here() const {
  u64 there = at_ - shift_;
  return there < theirs_.size ? std::optional(there) : std::nullopt;
}

// The size of the parent's chunk that comes next if nothing has changed, or 0.
size_t IncrementCutter::expected() const {
  std::optional<u64> there = here();
  if (!there) return 0;
  size_t i = theirs_.chunk_at(*there);
  u32 size = parent_.chunks[theirs_.chunks[i]].raw_size;
  return theirs_.starts[i] == *there && size <= kMaxCutBytes ? size : 0;
}

Piece IncrementCutter::next(ByteView data, bool is_end) {
  if (data.empty()) return {};
  if (to_split_ > 0) return split(data, false);
  if (!asked_) {
    size_t size = expected();
    if (size > data.size() && !is_end) return {};
    asked_ = true;
    u32 chunk = size > 0 ? theirs_.chunks[theirs_.chunk_at(*here())] : 0;
    if (size > 0 && size <= data.size() &&
        chunk_address(data.first(size), parent_.seed) == parent_.chunks[chunk].address)
      return pass({size, chunk, {}});
  }
  return cut(data, is_end);
}

Piece IncrementCutter::cut(ByteView data, bool is_end) {
  size_t size = content_.next(data);
  if (size == 0 && !is_end) return {};
  if (size == 0) size = data.size();
  if (std::optional<u32> known = find(data.first(size))) return pass({size, known, {}});
  to_split_ = size;
  return split(data, true);
}

// `is_new`: all of it is known not to be a chunk of the parent.
Piece IncrementCutter::split(ByteView data, bool is_new) {
  Piece piece{edge(), {}, {}};
  if (!is_new || piece.size < to_split_) piece.known = find(data.first(piece.size));
  to_split_ -= piece.size;
  if (std::optional<u64> there = here(); there && !piece.known)
    piece.like = base_at(theirs_, *there);
  return pass(piece);
}

// How far it is to the parent's next edge that may be one here.
size_t IncrementCutter::edge() const {
  std::optional<u64> there = here();
  if (!there) return to_split_;
  for (size_t i = theirs_.chunk_at(*there) + 1; i < theirs_.starts.size(); ++i) {
    u64 size = theirs_.starts[i] - *there;
    if (size + kLeastPieceBytes > to_split_) break;
    if (size >= kLeastPieceBytes) return size;
  }
  return to_split_;
}

// The parent's chunk that equals this one, wherever it is; and if it is in one place only, that is
// where we are.
std::optional<u32> IncrementCutter::find(ByteView chunk) {
  auto it = places_.find(chunk_address(chunk, parent_.seed));
  if (it == places_.end()) return std::nullopt;
  if (it->second.is_only) shift_ = at_ - theirs_.starts[it->second.first];
  return theirs_.chunks[it->second.first];
}

Piece IncrementCutter::pass(Piece piece) {
  at_ += piece.size;
  asked_ = false;
  return piece;
}

}  // namespace ckpt::storage
