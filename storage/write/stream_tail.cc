// SPDX-License-Identifier: Apache-2.0
#include "storage/write/stream_tail.h"

#include <cstring>
#include <utility>

namespace ckpt::storage {

std::span<std::byte> StreamTail::room(BlockPool &pool) {
  if (!block_) block_ = pool.take();
  if (end_ == BlockPool::kSlabBytes) {  // full: move the rest to a new block
    StreamTail full = std::exchange(*this, StreamTail());
    block_ = pool.take();
    end_ = full.bytes().size();
    if (end_ > 0) std::memcpy(block_.get(), full.bytes().data(), end_);
  }
  return {block_.get() + end_, BlockPool::kSlabBytes - end_};
}

ByteView StreamTail::take(size_t size) {
  ByteView front = bytes().first(size);
  begin_ += size;
  return front;
}

void StreamTail::shrink() {
  ByteView rest = bytes();
  Block exact(new std::byte[rest.size()], std::default_delete<std::byte[]>());
  std::memcpy(exact.get(), rest.data(), rest.size());
  end_ = rest.size();
  begin_ = 0;
  block_ = std::move(exact);
}

}  // namespace ckpt::storage
