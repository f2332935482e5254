// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/bytes.h"

namespace ckpt::storage {

// What an image holds; live while it is written. Bytes and chunks as they were given, but for
// `unique_chunks` and the stored ones, which count what equal chunks share once.
struct ImageStats {
  u64 raw_bytes = 0;
  u64 stored_bytes = 0;  // in its own chunks.ckpt
  u64 chunks = 0;
  u64 unique_chunks = 0;  // in its own chunks.ckpt
  u64 zero_chunks = 0;
  u64 raw_chunks = 0;     // unique, stored as they are
  u64 zstd_chunks = 0;    // unique, compressed
  u64 delta_chunks = 0;   // unique, stored as what they differ by from one of a parent
  u64 parent_chunks = 0;  // unique, stored by a parent
  u64 parent_bytes = 0;   // stored bytes of those
};

}  // namespace ckpt::storage
