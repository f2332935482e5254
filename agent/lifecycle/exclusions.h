// SPDX-License-Identifier: Apache-2.0
//
// Host memory whose contents an image need not hold (ckpt_exclude).
#pragma once

#include <mutex>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::agent {

class Exclusions {
 public:
  void add(const void *address, size_t bytes);
  bool remove(const void *address, size_t bytes);
  // Gives the pages back to the kernel: CRIU then finds nothing to write. Private anonymous pages
  // only, for dropping others would lose nothing or, in a file, keep everything.
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
