// SPDX-License-Identifier: Apache-2.0
//
// Ranges that one cuMemUnmap each can unmap: it takes a range of several mappings, but of one
// reservation (vllm-project/vllm#45565).
#pragma once

#include <vector>

#include "common/base/bytes.h"

namespace ckpt::cuda {

struct AddressRange {
  u64 begin = 0, end = 0;
  bool operator==(const AddressRange &) const = default;
};

// Joins adjacent blocks of one reservation. `blocks`: in the order of their addresses. `window_of`:
// the first address of the reservation with this address.
template <class WindowOf>
std::vector<AddressRange> unmap_ranges(const std::vector<AddressRange> &blocks,
                                       WindowOf window_of) {
  std::vector<AddressRange> ranges;
  for (const AddressRange &b : blocks) {
    bool joins = !ranges.empty() && ranges.back().end == b.begin &&
                 window_of(ranges.back().begin) == window_of(b.begin);
    if (joins)
      ranges.back().end = b.end;
    else
      ranges.push_back(b);
  }
  return ranges;
}

}  // namespace ckpt::cuda
