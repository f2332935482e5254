// SPDX-License-Identifier: Apache-2.0
//
// Host memory that is excluded from images (ckpt_exclude).
#pragma once

#include <mutex>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::agent {

class Exclusions {
 public:
  void add(const void *address, size_t bytes);
  bool remove(const void *address, size_t bytes);
  // Returns the pages to the kernel, so that CRIU finds nothing to save. Only private anonymous
  // pages: after MADV_DONTNEED those of a file or of shared memory have their old contents again.
  void drop_pages() const;

 private:
  struct Range {
    u64 begin = 0, end = 0;
    bool operator==(const Range &) const = default;
  };
  mutable std::mutex mutex_;
  std::vector<Range> ranges_;
};

}  // namespace ckpt::agent
