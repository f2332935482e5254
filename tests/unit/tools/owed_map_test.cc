// SPDX-License-Identifier: Apache-2.0
#include "tools/lazy/owed_map.h"

#include <doctest/doctest.h>

namespace ckpt::test {
using tools::OwedMap;
using tools::OwedPiece;

TEST_CASE("what has arrived is not owed any more") {
  OwedMap owed;
  owed.add({0x1000, 0x5000, 0});
  owed.drop(0x2000, 0x3000);
  CHECK(owed.bytes() == 0x3000);
  CHECK(owed.find(0x1fff) == OwedPiece{0x1000, 0x2000, 0});
  CHECK_FALSE(owed.find(0x2000));
  CHECK(owed.find(0x4000) == OwedPiece{0x3000, 0x5000, 0x2000});
  CHECK_FALSE(owed.find(0x5000));
  owed.drop(0, ~u64{0});
  CHECK(owed.empty());
}

TEST_CASE("the next piece ends behind the address") {
  OwedMap owed;
  owed.add({0x1000, 0x2000, 0});
  owed.add({0x4000, 0x5000, 0x1000});
  CHECK(owed.first() == OwedPiece{0x1000, 0x2000, 0});
  CHECK(owed.next(0x1800) == OwedPiece{0x1000, 0x2000, 0});
  CHECK(owed.next(0x2000) == OwedPiece{0x4000, 0x5000, 0x1000});
  CHECK_FALSE(owed.next(0x5000));
}

TEST_CASE("memory that is moved is owed at its new place") {
  OwedMap owed;
  owed.add({0x1000, 0x5000, 0});
  owed.add({0x10000, 0x12000, 0x4000});
  owed.move(0x2000, 0x10000, 0x1000);
  CHECK_FALSE(owed.find(0x2000));
  CHECK(owed.find(0x1000) == OwedPiece{0x1000, 0x2000, 0});
  CHECK(owed.find(0x3000) == OwedPiece{0x3000, 0x5000, 0x2000});
  CHECK(owed.find(0x10000) == OwedPiece{0x10000, 0x11000, 0x1000});
  CHECK(owed.find(0x11000) == OwedPiece{0x11000, 0x12000, 0x5000});
}

TEST_CASE("memory is moved onto a part of itself") {
  OwedMap owed;
  owed.add({0x1000, 0x3000, 0});
  owed.move(0x1000, 0x2000, 0x2000);
  CHECK(owed.first() == OwedPiece{0x2000, 0x4000, 0});
  CHECK(owed.bytes() == 0x2000);
}

TEST_CASE("a range that wraps around moves nothing") {
  OwedMap owed;
  owed.add({0x1000, 0x3000, 0});
  owed.move(0x1000, ~u64{0} - 0x100, 0x2000);
  CHECK(owed.first() == OwedPiece{0x1000, 0x3000, 0});
}

}  // namespace ckpt::test
