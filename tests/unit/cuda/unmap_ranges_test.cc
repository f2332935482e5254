// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/unmap_ranges.h"

#include <doctest/doctest.h>

using namespace ckpt;
using cuda::AddressRange;
using cuda::unmap_ranges;

namespace {

// Two reservations, one directly behind the other.
u64 window_of(u64 at) { return at < 100 ? 0 : 100; }

}  // namespace

TEST_CASE("adjacent blocks are unmapped together, others by themselves") {
  std::vector<AddressRange> blocks{{0, 10}, {10, 30}, {40, 50}, {50, 60}};
  CHECK(unmap_ranges(blocks, window_of) == std::vector<AddressRange>{{0, 30}, {40, 60}});
  CHECK(unmap_ranges({}, window_of).empty());
}

TEST_CASE("adjacent blocks of two reservations are not unmapped together") {
  std::vector<AddressRange> blocks{{80, 90}, {90, 100}, {100, 110}, {110, 120}};
  CHECK(unmap_ranges(blocks, window_of) == std::vector<AddressRange>{{80, 100}, {100, 120}});
}
