// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// How an image lies in host memory, as OpenCL counts it: bytes from one row to the next, and from
// one slice or layer to the next (0: there is but one).
struct Pitches {
  size_t row, slice;

  // Bytes from one element to what follows it in y. A layer of a 1D array is one row, and the next
  // begins where the slice pitch says.
  size_t down(const Image &im) const { return im.layered_rows() ? slice : row; }
  size_t offset(const Image &im, const std::array<size_t, 3> &at) const {
    return at[0] * im.element + at[1] * down(im) + at[2] * slice;
  }
};

}  // namespace ckpt::ocl
