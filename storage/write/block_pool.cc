// SPDX-License-Identifier: Apache-2.0
#include "storage/write/block_pool.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace ckpt::storage {

void BlockPool::Free::operator()(std::byte *slab) const { std::free(slab); }

Block BlockPool::take() {
  std::lock_guard lock(mutex_);
  if (free_.empty()) add_slab();
  std::byte *block = free_.back();
  free_.pop_back();
  return {block, [this](std::byte *back) { give(back); }};
}

void BlockPool::add_slab() {
  auto *slab = static_cast<std::byte *>(std::aligned_alloc(kSlabBytes, kSlabBytes));
  if (!slab) throw std::bad_alloc();
  slabs_.emplace_back(slab);
  ::madvise(slab, kSlabBytes, MADV_HUGEPAGE);  // only a hint
  for (size_t at = 0; at < kSlabBytes; at += bytes_) free_.push_back(slab + at);
}

void BlockPool::give(std::byte *block) {
  std::lock_guard lock(mutex_);
  free_.push_back(block);
}

}  // namespace ckpt::storage
