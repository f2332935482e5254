// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace ckpt::storage {

// A buffer that goes back to its pool by itself.
using Block = std::shared_ptr<std::byte>;

// Buffers of one size, used again and again, in huge pages where the system has them: fresh memory
// costs a page fault each 4 KiB. The one given back last is taken first, it may still be in the
// cache. Thread-safe; outlives its blocks.
class BlockPool {
 public:
  static constexpr size_t kSlabBytes = 2u << 20;  // a huge page

  // `bytes` divides kSlabBytes.
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
