// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint stores the contents of an image as one sequence of elements, without gaps between
// rows and slices. Drivers copy boxes, so a part of the sequence is cut into boxes here.
#pragma once

#include <algorithm>
#include <array>

#include "common/base/bytes.h"

namespace ckpt::ocl {

struct Box {
  std::array<size_t, 3> origin, region;
  size_t elements() const { return region[0] * region[1] * region[2]; }
};

// The largest box that begins at element `at` of an image of this extent and holds at most `count`
// elements, which are consecutive in the sequence. `count` > 0, and at + count is inside the image.
inline Box next_box(const std::array<size_t, 3> &extent, u64 at, u64 count) {
  const u64 row = extent[0], slice = row * extent[1];
  const size_t x = at % row, y = at / row % extent[1], z = at / slice;
  if (x != 0 || count < row) return {{x, y, z}, {std::min<u64>(row - x, count), 1, 1}};
  if (y != 0 || count < slice)
    return {{0, y, z}, {extent[0], std::min<u64>(extent[1] - y, count / row), 1}};
  return {{0, 0, z}, {extent[0], extent[1], std::min<u64>(extent[2] - z, count / slice)}};
}

}  // namespace ckpt::ocl
