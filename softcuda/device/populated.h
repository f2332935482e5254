// SPDX-License-Identifier: Apache-2.0
//
// The granules of mapped device memory that have all their pages.
//
// A device's memory has no page faults, but here it is a file in memory, whose pages are made when
// they are first written. To make them all when memory is mapped would take time and memory for
// what a program never uses. So a large copy makes those of its destination, in huge pages
// (common/base/huge_pages.h), before it writes.
#pragma once

#include <mutex>
#include <set>

#include "common/base/bytes.h"

namespace ckpt::softcuda {

// Thread-safe. Granules are numbers: addresses divided by the size of a granule.
class Populated {
 public:
  // Adds the granules [begin, end). Calls make(first, last) for each run [first, last) of them that
  // was not there, without a lock: two copies into one granule need not wait for each other.
  template <class Make>
  void add(u64 begin, u64 end, Make make) {
    for (u64 first = begin; first < end;) {
      u64 last = first;
      while (last < end && insert(last)) ++last;
      if (last > first) make(first, last);
      first = last + 1;
    }
  }
  void forget(u64 begin, u64 end) {
    std::lock_guard lock(mutex_);
    granules_.erase(granules_.lower_bound(begin), granules_.lower_bound(end));
  }

 private:
  bool insert(u64 granule) {
    std::lock_guard lock(mutex_);
    return granules_.insert(granule).second;
  }

  std::mutex mutex_;
  std::set<u64> granules_;
};

}  // namespace ckpt::softcuda
