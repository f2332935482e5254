// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/bytes.h"

namespace ckpt::storage {

// Counts of an image's bytes and chunks; an ImageWriter updates them while it writes. `raw_bytes`,
// `chunks` and `zero_chunks` count each occurrence; the others count equal chunks once.
struct ImageStats {
  u64 raw_bytes = 0;
  u64 stored_bytes = 0;  // in the image's own chunks.ckpt
  u64 chunks = 0;
  u64 unique_chunks = 0;  // in the image's own chunks.ckpt
  u64 zero_chunks = 0;
  u64 raw_chunks = 0;     // unique, stored uncompressed
  u64 zstd_chunks = 0;    // unique, compressed
  u64 delta_chunks = 0;   // unique, stored as a difference from a chunk of the parent
  u64 parent_chunks = 0;  // unique, stored by a parent
  u64 parent_bytes = 0;   // the stored bytes of those
};

}  // namespace ckpt::storage
