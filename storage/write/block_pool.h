// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace ckpt::storage {

// A buffer that returns to its pool when the last copy of this pointer is gone.
using Block = std::shared_ptr<std::byte>;

// Reusable buffers of one size, because each fresh page costs a page fault. The memory is allocated
// as huge pages if the system has them. The buffer that was returned last is taken first, because
// it may still be in the cache. Thread-safe. Must outlive its blocks.
class BlockPool {
 public:
  static constexpr size_t kSlabBytes = 2u << 20;  // a huge page

  // `bytes` must divide kSlabBytes.
  explicit BlockPool(size_t bytes) : bytes_(bytes) {}
  Block take();

 private:
  struct Free {
    void operator()(std::byte *slab) const;
  };
  void add_slab();
  void give(std::byte *block);

  const size_t bytes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte, Free>> slabs_;
  std::vector<std::byte *> free_;
};

}  // namespace ckpt::storage
