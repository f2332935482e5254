// SPDX-License-Identifier: Apache-2.0
#include "slicing/boxes.h"

#include <doctest/doctest.h>

#include <random>

using namespace ckpt;
using namespace ckpt::slicing;

namespace {

// Checks that `box` holds exactly the blocks from number `done` on, and returns the next number.
u64 check_box(const Dim &grid, u64 done, const Box &box) {
  u64 next = done;
  for (u32 z = 0; z < box.extent[2]; ++z)
    for (u32 y = 0; y < box.extent[1]; ++y)
      for (u32 x = 0; x < box.extent[0]; ++x) {
        REQUIRE(box.base[0] + x < grid[0]);
        REQUIRE(box.base[1] + y < grid[1]);
        REQUIRE(box.base[2] + z < grid[2]);
        u64 number = (u64{box.base[2] + z} * grid[1] + box.base[1] + y) * grid[0] + box.base[0] + x;
        REQUIRE(number == next++);
      }
  return next;
}

}  // namespace

TEST_CASE("boxes cover every block once, in ascending order, whatever the grid and the size") {
  std::mt19937 random(7);
  auto below = [&](u32 n) { return 1 + static_cast<u32>(random() % n); };
  for (int i = 0; i < 2000; ++i) {
    Dim grid{below(9), below(7), below(5)};
    u64 done = 0;
    while (done < blocks_of(grid)) {
      u64 most = random() % 100;
      Box box = next_box(grid, done, most);
      CHECK(blocks_of(box.extent) <= std::max<u64>(most, 1));
      u64 next = check_box(grid, done, box);
      REQUIRE(next > done);
      done = next;
      if (random() % 8 == 0) break;
    }
    std::vector<Box> rest = rest_of(grid, done);
    CHECK(rest.size() <= 3);
    for (const Box &box : rest) done = check_box(grid, done, box);
    CHECK(done == blocks_of(grid));
  }
}

TEST_CASE("the largest grid does not overflow") {
  Dim grid{2147483647, 65535, 65535};
  Box box = next_box(grid, blocks_of(grid) - 1, 1);
  CHECK(box == Box{{2147483646, 65534, 65534}, {1, 1, 1}});
}
