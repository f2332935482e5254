// SPDX-License-Identifier: Apache-2.0
//
// Content-defined cuts: where a stream of memory pages is divided into chunks.
//
// The problem: equal chunks are stored once, but only if both images cut equal bytes in the same
// places. CRIU writes the pages of a process one after the other. With cuts at fixed offsets, a
// single additional page moves all later data, and no later chunk is equal to one of the parent:
//
//   parent   | p0 p1 p2 p3 | p4 p5 p6 p7 | p8 …
//   child    | p0 NEW p1 p2 | p3 p4 p5 p6 | p7 …      nothing matches after NEW
//
// The algorithm: the cuts depend on the bytes. A chunk ends after a page whose hash has its lowest
// bits zero. If p3 and p7 are such pages, the cuts are the same again from the first one
// after the difference on:
//
//   child    | p0 NEW p1 p2 p3 | p4 p5 p6 p7 | p8 …   only the first chunk is new
//
// A chunk has at least kMinCutBytes and at most kMaxCutBytes; the pages before the minimum are not
// hashed. With kMeanCutBytes of 256 KiB, one page in 64 ends a chunk, so the mean chunk has about
// 500 KiB.
//
// Cost: XXH3-64 of the pages beyond the minimum, far below the cost of compression. Readers do not
// depend on it: the index has the size of each chunk.
//
// Sources: rsync's rolling checksum (Tridgell and Mackerras, "The rsync algorithm", 1996) and LBFS
// (Muthitacharoen et al., "A Low-bandwidth Network File System", SOSP 2001), which cuts where a
// Rabin fingerprint of a sliding window has a given value. Memory changes in whole pages at
// multiples of 4 KiB, so here the hash of one page replaces the sliding window.
#pragma once

#include "common/base/bytes.h"

namespace ckpt::storage {

// How a stream is cut into chunks. Fixed: every kChunkBytes. Content: by ContentCut.
enum class Cut { Fixed, Content };

inline constexpr size_t kPageBytes = 4096;
// After a difference, small chunks match again sooner; large ones compress better (1 MiB chunks of
// smooth floats need a third less than 128 KiB ones).
inline constexpr size_t kMinCutBytes = 256u << 10;
inline constexpr size_t kMeanCutBytes = 256u << 10;  // the mean distance beyond the minimum
inline constexpr size_t kMaxCutBytes = 1u << 20;

class ContentCut {
 public:
  // `data` starts at the end of the last chunk and contains at least the bytes of the last call.
  // Returns the size of the next chunk, or 0 if more bytes are needed to decide.
  size_t next(ByteView data);

 private:
  size_t seen_ = 0;  // the bytes of `data` that were examined already
};

}  // namespace ckpt::storage
