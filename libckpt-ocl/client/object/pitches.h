// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// The layout of an image in host memory: bytes from one row to the next, and from one slice or
// layer to the next (0: there is only one).
struct Pitches {
  size_t row, slice;

  // Bytes from one element to the next one in y. The layers of a 1D array are its rows, and lie a
  // slice pitch apart.
  size_t down(const Image &im) const { return im.layered_rows() ? slice : row; }
  size_t offset(const Image &im, const std::array<size_t, 3> &at) const {
    return at[0] * im.element + at[1] * down(im) + at[2] * slice;
  }
};

}  // namespace ckpt::ocl
