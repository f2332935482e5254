// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "libckpt-ocl/image_pieces.h"

using namespace ckpt;
using namespace ckpt::ocl;

namespace {

// Cuts [at, end) into boxes, whose elements must be consecutive in the sequence. Returns their
// number.
size_t boxes_of(const std::array<size_t, 3> &extent, u64 at, u64 end) {
  size_t boxes = 0;
  u64 next = at;
  while (next < end) {
    Box b = next_box(extent, next, end - next);
    boxes++;
    for (size_t z = b.origin[2]; z < b.origin[2] + b.region[2]; z++)
      for (size_t y = b.origin[1]; y < b.origin[1] + b.region[1]; y++)
        for (size_t x = b.origin[0]; x < b.origin[0] + b.region[0]; x++) {
          REQUIRE(x < extent[0]);
          REQUIRE(y < extent[1]);
          REQUIRE(z < extent[2]);
          REQUIRE((z * extent[1] + y) * extent[0] + x == next);
          next++;
        }
  }
  REQUIRE(next == end);
  return boxes;
}

}  // namespace

TEST_CASE("image pieces: boxes cover exactly a part of the sequence, in order") {
  std::mt19937 random(11);
  for (int i = 0; i < 2000; i++) {
    std::array<size_t, 3> extent{1 + random() % 9, 1 + random() % 7, 1 + random() % 5};
    u64 whole = extent[0] * extent[1] * extent[2];
    u64 at = random() % whole, end = at + 1 + random() % (whole - at);
    CHECK(boxes_of(extent, at, end) <= 5);
  }
}

TEST_CASE("image pieces: a whole image is one box") {
  CHECK(boxes_of({17, 5, 3}, 0, 17 * 5 * 3) == 1);
  CHECK(boxes_of({17, 1, 1}, 0, 17) == 1);
}
