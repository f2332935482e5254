// SPDX-License-Identifier: Apache-2.0
//
// Chunks of an increment as what they differ by from one of the parent. A thread keeps one of them.
#pragma once

#include <optional>

#include "storage/chunk/chunk_codec.h"
#include "storage/read/image_reader.h"

namespace ckpt::storage {

// A chunk of the parent's table that is probably like a new one, from a byte of it on.
struct DeltaBase {
  u32 chunk = 0;
  u32 offset = 0;
};

// What a stream holds at a place, and after it. Nothing: it ends before.
std::optional<DeltaBase> base_at(const StreamEntry &stream, u64 offset);

class DeltaMaker {
 public:
  struct Made {
    DeltaBase base;  // no delta itself
    ChunkEncoder::Encoded encoded;
  };
  // `parent`: null: nothing is ever made.
  explicit DeltaMaker(const ImageReader *parent) : parent_(parent) {}
  // Nothing where it does not pay, or where the base cannot be read. Until the encoder's next call.
  std::optional<Made> make(ByteView raw, DeltaBase at, ChunkEncoder &encoder);

 private:
  bool is_worth_a_try();
  Result<ByteView> read_base(u32 chunk);

  const ImageReader *parent_;
  Bytes base_;
  std::optional<u32> cached_;  // the chunk that base_ holds
  unsigned misses_ = 0;        // in a row
};

}  // namespace ckpt::storage
