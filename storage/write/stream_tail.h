// SPDX-License-Identifier: Apache-2.0
//
// The end of a stream that is appended to: bytes that are in no chunk yet, one after the other in a
// block. Chunks are taken off its front without a copy.
#pragma once

#include <span>

#include "common/base/bytes.h"
#include "storage/write/block_pool.h"

namespace ckpt::storage {

class StreamTail {
 public:
  // What is in no chunk yet. Less than half a block of it may be left when room() is called.
  ByteView bytes() const { return {block_.get() + begin_, end_ - begin_}; }
  // Where the next bytes go; never empty. Valid until the next call.
  std::span<std::byte> room(BlockPool &pool);
  // So many of them are there.
  void commit(size_t size) { end_ += size; }
  // Takes bytes off the front: they are valid as long as block().
  ByteView take(size_t size);
  const Block &block() const { return block_; }
  // The bytes get a block of just their size.
  void shrink();
  void reset() { *this = StreamTail(); }

 private:
  Block block_;
  size_t begin_ = 0, end_ = 0;
};

}  // namespace ckpt::storage
