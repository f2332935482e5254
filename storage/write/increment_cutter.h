// SPDX-License-Identifier: Apache-2.0
//
// Cuts a stream of memory pages along the stream of the same name in the parent image.
//
// The problem: most pages of an increment are those of the parent, some have changed, and a few
// were inserted or removed, which moves all later ones. Each unchanged range should be recognised
// as a chunk of the parent at the price of one hash, and each changed range should be compared with
// the one range of the parent that it came from, so that it becomes a small delta.
//
// The algorithm keeps a shift: byte x of the parent's stream corresponds to byte x + shift of ours
// (0 at first). For the next chunk it tries:
//
//   1. Expected: the parent's chunk at the corresponding offset, if our next bytes are equal.
//   2. Content: otherwise a chunk that is cut by content (storage/chunk/content_cut.h), if the
//      parent's stream has an equal one anywhere. If it has just one, the shift becomes the
//      distance to it.
//   3. Edges: otherwise the chunk is new. It is split at the ends of the parent's chunks, so that
//      each piece corresponds to a single chunk of the parent, its base for a delta. Pieces smaller
//      than 32 KiB are not made, or chunks would become smaller with each increment.
//
// Example: the last page of B, at which the content cut fell, was changed.
//
//   parent   | A | B  | C | D |
//   child    | A | B' | C | D |    Step 1 finds A and D. There is no cut after B' now, so step 2
//                                  makes the chunk B'C, which is new. Step 3 splits it into B',
//                                  a delta on B, and the known chunk C.
//
// Cost: XXH3-128 over every byte once; over bytes that changed or moved up to two more times, and
// the page hashes of the content cuts. One table entry for each chunk of the parent's stream. The
// algorithm is our own; content-defined cuts and deltas are described in content_cut.h and
// delta_maker.h.
#pragma once

#include <optional>
#include <unordered_map>

#include "storage/chunk/content_cut.h"
#include "storage/write/delta_maker.h"

namespace ckpt::storage {

// The next chunk of a stream.
struct Piece {
  size_t size = 0;                   // 0: more bytes are needed to decide
  std::optional<u32> known;          // the parent's chunk that it is equal to
  std::optional<DeltaBase> similar;  // the base for a delta
};

class IncrementCutter {
 public:
  // Both arguments must outlive this object.
  IncrementCutter(const StreamEntry &parent_stream, const Index &parent);
  // `data` starts at the end of the last piece and contains at least the bytes of the last call.
  // `is_end`: there are no more bytes; the call then returns a piece unless `data` is empty.
  Piece next(ByteView data, bool is_end);

 private:
  struct Place {
    size_t first = 0;  // position in parent_stream_.chunks
    bool is_only = true;
  };
  struct Expected {
    u32 chunk = 0;
    size_t size = 0;  // 0: no chunk of the parent starts here
  };
  std::optional<u64> parent_offset() const;
  Expected expected() const;
  bool matches(ByteView data, const Expected &expected) const;
  Piece cut_by_content(ByteView data, bool is_end);
  Piece split_at_edges(ByteView data, bool is_new);
  size_t distance_to_edge() const;
  std::optional<u32> find(ByteView chunk);
  Piece emit(Piece piece);

  const StreamEntry &parent_stream_;
  const Index &parent_;
  std::unordered_map<ChunkAddress, Place, ChunkAddressHash> places_;
  ContentCut content_;
  u64 at_ = 0;             // the offset of the next piece in our stream
  u64 shift_ = 0;          // our offset minus the parent's (modulo 2^64)
  bool mismatch_ = false;  // the expected chunk is not the next one
  size_t to_split_ = 0;    // bytes of a new chunk that are not in a piece yet
};

}  // namespace ckpt::storage
