// SPDX-License-Identifier: Apache-2.0
//
// Where a stream of memory pages is cut into chunks, by what the pages hold: CRIU writes a
// process's pages one after the other, so a page more or less moves all that follow. A cut follows
// a page whose hash has some bits zero, so after a difference the cuts of two streams soon fall on
// the same pages again, and equal pages meet in equal chunks (the idea of rsync's and LBFS's
// content-defined chunks, with whole pages in place of a rolling window). A reader need not know of
// it.
#pragma once

#include "common/base/bytes.h"

namespace ckpt::storage {

inline constexpr size_t kPageBytes = 4096;
// Small chunks meet again sooner after a difference; large ones compress better (1 MiB: by a third
// on smooth floats, against 128 KiB).
inline constexpr size_t kMinCutBytes = 256u << 10;
inline constexpr size_t kMeanCutBytes = 256u << 10;  // above the least
inline constexpr size_t kMaxCutBytes = 1u << 20;

class ContentCut {
 public:
  // `data` begins where the last chunk ended, and holds at least what it held at the last call. The
  // next chunk's size, or 0: more bytes are needed to tell.
  size_t next(ByteView data);

 private:
  size_t seen_ = 0;  // of `data`, looked at before
};

}  // namespace ckpt::storage
