// SPDX-License-Identifier: Apache-2.0
//
// An array as one sequence of bytes (cuda/arrays.h), though only copies of boxes reach it.
#pragma once

#include <algorithm>

#include "cuda/arrays.h"
#include "remote/cuda/protocol.h"

namespace ckpt::remote::cuda {

// The boxes of the array `number` with the bytes [begin, end), in their order: at most the rest of
// a row, the rest of a slice, whole slices, rows, and a part of a row.
template <class F>
void for_each_box(const api::ArrayShape &a, u64 number, u64 begin, u64 end, F f) {
  u64 slice_bytes = a.slice_bytes();
  while (begin < end) {
    u64 left = end - begin, x = begin % a.row_bytes, in_slice = begin % slice_bytes;
    u64 y = in_slice / a.row_bytes, z = begin / slice_bytes;
    Box b{x, a.row_bytes, slice_bytes, a.row_bytes, 1, 1, number, y, z};
    if (x != 0 || left < a.row_bytes) {
      b.width = std::min(left, a.row_bytes - x);
    } else if (y != 0 || left < slice_bytes) {
      b.height = std::min(left / a.row_bytes, a.rows - y);
    } else {
      b.height = a.rows;
      b.depth = left / slice_bytes;
    }
    b.pitch = b.width;
    b.slice = b.width * b.height;
    f(b);
    begin += b.slice * b.depth;
  }
}

}  // namespace ckpt::remote::cuda
