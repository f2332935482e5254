// SPDX-License-Identifier: Apache-2.0
//
// Deltas: chunks stored as their difference from a chunk of the parent image.
//
// The problem: a program that writes a few bytes in every hundredth page changes nearly every
// chunk, although 99 % of the memory is as it was. Storing each changed chunk whole would make the
// increment as large as a first image.
//
// The encoding: the exclusive or of the new chunk and a chunk of the parent, the base. Equal bytes
// become zeros, which zstd compresses to almost nothing. Example, with one changed byte in 1 MiB:
//
//   base    a0 a1 a2 a3 a4 …
//   new     a0 a1 b2 a3 a4 …
//   xor     00 00 xx 00 00 …     about 50 bytes as a zstd frame
//
// A base may start in the middle of the parent's chunk (DeltaBase::offset); beyond its end it
// counts as zeros.
//
// One level only: a base is never a delta itself. If the parent's chunk is a delta, its base
// becomes the base of the new chunk too:
//
//   image 0   B            stored whole
//   image 1   delta on B
//   image 2   delta on B   not: delta on (delta on B)
//
// So reading a chunk needs at most two stored chunks, however long the chain is. The price is that
// deltas grow as the memory changes further from B.
// A delta that is not smaller than half of what its base would need is therefore discarded, and the
// chunk is stored whole: it is the base from then on. (git limits the length of its delta chains
// for the same reason: git-pack-objects(1), --depth.)
//
// Cost: reading and decoding the base, a comparison page by page that stops once half of the pages
// differ, and zstd over mostly zeros. A program that rewrites all its memory would pay for reading
// bases without benefit, so after kMisses failures in a row only every kTryEvery-th chunk is tried.
//
// zstd could compress with the base as a dictionary instead (zstd(1), --patch-from), which also
// finds moved bytes. The exclusive or is faster, and IncrementCutter aligns moved pages already.
#pragma once

#include <optional>

#include "storage/chunk/chunk_codec.h"
#include "storage/read/image_reader.h"

namespace ckpt::storage {

// A chunk in the parent's table that is probably similar to a new one, starting at byte `offset`.
struct DeltaBase {
  u32 chunk = 0;
  u32 offset = 0;
};

// The position `offset` of a stream as a DeltaBase, or nothing if the stream is shorter.
std::optional<DeltaBase> base_at(const StreamEntry &stream, u64 offset);

struct EncodedChunk {
  ChunkEncoder::Encoded encoded;
  DeltaBase base;  // only for Codec::Delta; not a delta itself
};

// Each thread needs one, because it caches the last base.
class DeltaMaker {
 public:
  // Without a parent (null), make() never returns a delta.
  explicit DeltaMaker(const ImageReader *parent) : parent_(parent) {}
  // Returns nothing if a delta is not small enough, or if the base cannot be read. The result is
  // valid until the next call of the encoder.
  std::optional<EncodedChunk> make(ByteView raw, DeltaBase similar, ChunkEncoder &encoder);

 private:
  bool is_worth_a_try();
  Result<ByteView> read_base(u32 chunk);

  const ImageReader *parent_;
  Bytes base_;
  std::optional<u32> cached_;  // the chunk in base_
  unsigned misses_ = 0;        // failures in a row
};

}  // namespace ckpt::storage
