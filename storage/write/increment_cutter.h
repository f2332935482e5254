// SPDX-License-Identifier: Apache-2.0
//
// Cuts a stream of pages of an increment along the stream of the same name in its parent. Where the
// parent's chunk comes again, its address alone tells so. Where one has changed, the new chunk is
// cut by content (storage/chunk/content_cut.h) and at the parent's edges, so that each piece has
// one chunk of the parent that it is like.
#pragma once

#include <optional>
#include <unordered_map>

#include "storage/chunk/content_cut.h"
#include "storage/write/delta_maker.h"

namespace ckpt::storage {

// The next chunk of a stream.
struct Piece {
  size_t size = 0;                // 0: more bytes are needed to tell
  std::optional<u32> known;       // the parent's chunk that it equals
  std::optional<DeltaBase> like;  // what it may differ little from
};

class IncrementCutter {
 public:
  // Both must outlive this.
  IncrementCutter(const StreamEntry &theirs, const Index &parent);
  // `data` begins where the last piece ended, and holds at least what it held at the last call.
  // `is_end`: no more will come; then there is a piece as long as there is data.
  Piece next(ByteView data, bool is_end);

 private:
  struct AddressHash {
    size_t operator()(const ChunkAddress &a) const { return static_cast<size_t>(a.low); }
  };
  struct Place {
    size_t first = 0;  // in theirs_.chunks
    bool is_only = true;
  };
  std::optional<u64> here() const;
  size_t expected() const;
  Piece cut(ByteView data, bool is_end);
  Piece split(ByteView data, bool is_new);
  size_t edge() const;
  std::optional<u32> find(ByteView chunk);
  Piece pass(Piece piece);

  const StreamEntry &theirs_;
  const Index &parent_;
  std::unordered_map<ChunkAddress, Place, AddressHash> places_;
  ContentCut content_;
  u64 at_ = 0;           // of the next piece in our stream
  u64 shift_ = 0;        // what lies at x there is like what lies at x + shift_ here (modulo 2^64)
  bool asked_ = false;   // whether the expected chunk comes next: it does not
  size_t to_split_ = 0;  // bytes of a changed chunk that are in no piece yet
};

}  // namespace ckpt::storage
