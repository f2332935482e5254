// SPDX-License-Identifier: Apache-2.0
//
// The program's allocations of shared virtual memory. Small ones share a block (block.h), because
// each block costs a file, and blocks grow with what the program has, so that few are needed.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "libckpt-ocl/client/object/objects.h"
#include "libckpt-ocl/client/svm/spans.h"

namespace ckpt::ocl {

class Allocations {
 public:
  // The largest alignment.
  static constexpr size_t kMostAligned = 4096;
  // nullptr: there is no memory, or a device does not work at host addresses. `largest`: of a
  // block, as the devices allow.
  void *allocate(Context &context, size_t bytes, size_t alignment, size_t largest);
  // Frees an allocation. False: none begins there.
  bool free(void *at);

  struct Place {
    Ref<Mem> block;
    size_t offset;
    std::byte *address() const { return block->shadow.data + offset; }
  };
  // Where these bytes are; no value: not wholly in one allocation.
  std::optional<Place> find(const void *at, size_t bytes = 1);

 private:
  struct Block {
    Mem *mem;
    Spans spans;
    bool own;  // of one allocation
  };
  struct Allocation {
    size_t bytes;
    std::shared_ptr<Block> block;
  };

  void *allocate_in(const std::shared_ptr<Block> &block, size_t bytes, size_t alignment);
  std::shared_ptr<Block> new_block(Context &context, size_t bytes, size_t largest);
  void forget(const std::shared_ptr<Block> &block);

  std::mutex mutex_;
  std::map<std::byte *, Allocation> allocations_;
  std::vector<std::shared_ptr<Block>> blocks_;
  size_t total_ = 0;  // bytes of all blocks
};

Allocations &allocations();

}  // namespace ckpt::ocl
