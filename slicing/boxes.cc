// SPDX-License-Identifier: Apache-2.0
#include "slicing/boxes.h"

#include <algorithm>

namespace ckpt::slicing {
namespace {

Dim place_of(const Dim &grid, u64 number) {
  return {static_cast<u32>(number % grid[0]), static_cast<u32>(number / grid[0] % grid[1]),
          static_cast<u32>(number / grid[0] / grid[1])};
}

u32 at_most(u64 wanted, u32 left) { return static_cast<u32>(std::min<u64>(wanted, left)); }

}  // namespace

Box next_box(const Dim &grid, u64 done, u64 most) {
  const Dim at = place_of(grid, done);
  const u64 row = grid[0], plane = row * grid[1];
  if (at[0] != 0 || most < row)
    return {at, {at_most(std::max<u64>(most, 1), grid[0] - at[0]), 1, 1}};
  if (at[1] != 0 || most < plane) return {at, {grid[0], at_most(most / row, grid[1] - at[1]), 1}};
  return {at, {grid[0], grid[1], at_most(most / plane, grid[2] - at[2])}};
}

std::vector<Box> rest_of(const Dim &grid, u64 done) {
  std::vector<Box> boxes;
  for (const u64 all = blocks_of(grid); done < all; done += blocks_of(boxes.back().extent))
    boxes.push_back(next_box(grid, done, all));
  return boxes;
}

}  // namespace ckpt::slicing
