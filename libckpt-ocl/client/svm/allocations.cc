// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/svm/allocations.h"

#include <sys/mman.h>

#include <algorithm>

#include "libckpt-ocl/client/svm/block.h"
#include "libckpt-ocl/reserve.h"

namespace ckpt::ocl {
namespace {

constexpr size_t kSmallestBlock = 1u << 20, kLargestPool = 64u << 20;
// Freed parts of a block from this size on are given back to the system at once.
constexpr size_t kGivenBack = 64u << 10;

size_t whole_pages(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

void give_back(std::byte *at, size_t bytes) {
  if (bytes < kGivenBack) return;
  auto begin = whole_pages(reinterpret_cast<uintptr_t>(at));
  auto end = (reinterpret_cast<uintptr_t>(at) + bytes) / kPageBytes * kPageBytes;
  if (begin < end) ::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_REMOVE);
}

}  // namespace

Allocations &allocations() {
  static Allocations *a = new Allocations;
  return *a;
}

void *Allocations::allocate(Context &context, size_t bytes, size_t alignment, size_t largest) {
  {
    std::lock_guard lock(mutex_);
    for (const std::shared_ptr<Block> &b : blocks_)
      if (!b->own && b->mem->context.get() == &context)
        if (void *at = allocate_in(b, bytes, alignment)) return at;
  }
  // Without the lock: a new block may have to wait for the Manager, and for a checkpoint.
  std::shared_ptr<Block> made = new_block(context, bytes, largest);
  if (!made) return nullptr;
  std::lock_guard lock(mutex_);
  blocks_.push_back(made);
  total_ += made->mem->size;
  return allocate_in(made, bytes, alignment);
}

void *Allocations::allocate_in(const std::shared_ptr<Block> &block, size_t bytes,
                               size_t alignment) {
  std::optional<size_t> at = block->spans.take(bytes, alignment);
  if (!at) return nullptr;
  std::byte *begin = block->mem->shadow.data + *at;
  allocations_[begin] = {bytes, block};
  return begin;
}

std::shared_ptr<Allocations::Block> Allocations::new_block(Context &context, size_t bytes,
                                                           size_t largest) {
  size_t pool = kSmallestBlock;
  {
    std::lock_guard lock(mutex_);
    pool = whole_pages(std::clamp(total_, kSmallestBlock, kLargestPool));
  }
  bool own = bytes >= pool / 2 || pool > largest;
  cl_int status = CL_SUCCESS;
  Mem *made = make_block(context, own ? whole_pages(bytes) : pool, status);
  if (!made) return nullptr;
  return std::make_shared<Block>(Block{made, Spans(made->size), own});
}

bool Allocations::free(void *at) {
  auto *begin = static_cast<std::byte *>(at);
  std::shared_ptr<Block> empty;
  {
    std::lock_guard lock(mutex_);
    auto it = allocations_.find(begin);
    if (it == allocations_.end()) return false;
    auto [bytes, block] = it->second;
    allocations_.erase(it);
    block->spans.give(static_cast<size_t>(begin - block->mem->shadow.data), bytes);
    if (block->spans.all_free()) {
      forget(block);
      empty = block;
    } else {
      give_back(begin, bytes);
    }
  }
  if (empty) release_block(*empty->mem);
  return true;
}

void Allocations::forget(const std::shared_ptr<Block> &block) {
  std::erase(blocks_, block);
  total_ -= block->mem->size;
}

std::optional<Allocations::Place> Allocations::find(const void *at, size_t bytes) {
  auto *begin = static_cast<std::byte *>(const_cast<void *>(at));
  std::lock_guard lock(mutex_);
  auto it = allocations_.upper_bound(begin);
  if (it == allocations_.begin()) return {};
  --it;
  auto offset = static_cast<size_t>(begin - it->first);
  const Allocation &a = it->second;
  if (offset > a.bytes || bytes > a.bytes - offset) return {};
  return Place{Ref<Mem>(a.block->mem), static_cast<size_t>(begin - a.block->mem->shadow.data)};
}

}  // namespace ckpt::ocl
