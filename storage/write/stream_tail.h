// SPDX-License-Identifier: Apache-2.0
//
// The end of a stream that is appended to: bytes that are not in a chunk yet, contiguous in one
// block. Chunks are taken from its front without a copy.
#pragma once

#include <span>

#include "common/base/bytes.h"
#include "storage/write/block_pool.h"

namespace ckpt::storage {

class StreamTail {
 public:
  // The bytes that are not in a chunk yet. When room() is called they must fill less than half of a
  // block.
  ByteView bytes() const { return {block_.get() + begin_, end_ - begin_}; }
  // Where the next bytes are to be written; never empty. Valid until the next call.
  std::span<std::byte> room(BlockPool &pool);
  // The first `size` bytes of room() have been written.
  void commit(size_t size) { end_ += size; }
  // Removes bytes from the front. They are valid as long as block().
  ByteView take(size_t size);
  const Block &block() const { return block_; }
  // Moves the bytes to a block of exactly their size.
  void shrink();
  void reset() { *this = StreamTail(); }

 private:
  Block block_;
  size_t begin_ = 0, end_ = 0;
};

}  // namespace ckpt::storage
