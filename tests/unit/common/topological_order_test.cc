// SPDX-License-Identifier: Apache-2.0
#include "common/base/topological_order.h"

#include <doctest/doctest.h>

using namespace ckpt;

using Numbers = std::vector<u32>;

TEST_CASE("items keep their order where the dependencies allow it") {
  CHECK(topological_order({})->empty());
  CHECK(topological_order({{}, {}, {0}}) == Numbers{0, 1, 2});
  CHECK(topological_order({{3}, {}, {0, 1}, {}}) == Numbers{3, 0, 1, 2});
  // Named twice.
  CHECK(topological_order({{1, 1}, {}}) == Numbers{1, 0});
}

TEST_CASE("a cycle has no order") {
  CHECK_FALSE(topological_order({{0}}));
  CHECK_FALSE(topological_order({{}, {3}, {1}, {2}}));
}

// By recursion, a chain would need a stack of this depth.
TEST_CASE("a long chain is ordered") {
  constexpr u32 kItems = 1'000'000;
  std::vector<Numbers> after(kItems);
  for (u32 i = 0; i + 1 < kItems; ++i) after[i] = {i + 1};
  std::optional<Numbers> order = topological_order(after);
  REQUIRE(order);
  CHECK(order->front() == kItems - 1);
  CHECK(order->back() == 0);
}
