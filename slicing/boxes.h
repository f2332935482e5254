// SPDX-License-Identifier: Apache-2.0
//
// A grid in boxes of blocks. Boxes come in ascending order of block numbers (x fastest), so that a
// block which waits for one with a lower number, as in a scan with look-back, finds it done.
#pragma once

#include <vector>

#include "slicing/rewrite.h"

namespace ckpt::slicing {

struct Box {
  Dim base{};    // its first block
  Dim extent{};  // in blocks
  bool operator==(const Box &) const = default;
};

constexpr u64 blocks_of(const Dim &d) { return u64{d[0]} * d[1] * d[2]; }

// The next box of at most `most` blocks (at least 1), where `done` blocks were launched. A box is a
// part of one row, or whole rows of one plane, or whole planes.
Box next_box(const Dim &grid, u64 done, u64 most);

// All blocks from number `done` on, in at most three boxes: the rest of a row, of a plane, of the
// grid.
std::vector<Box> rest_of(const Dim &grid, u64 done);

}  // namespace ckpt::slicing
