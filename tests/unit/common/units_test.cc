// SPDX-License-Identifier: Apache-2.0
#include "common/base/units.h"

#include <doctest/doctest.h>

using namespace ckpt;

TEST_CASE("bytes have one decimal and the unit in which they are readable") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1.0 KiB");
  CHECK(human_bytes((1 << 20) - 1) == "1.0 MiB");
  CHECK(human_bytes(u64{3} << 29) == "1.5 GiB");
  CHECK(human_bytes(~u64{0}) == "16.0 EiB");
}

TEST_CASE("a need that is not met is the larger figure") {
  constexpr u64 kMiB = 1 << 20;
  CHECK(mebibytes(20 * kMiB) == "20 MiB");
  CHECK(mebibytes_needed(20 * kMiB) == "20 MiB");
  CHECK(mebibytes(20 * kMiB + 5) == "20 MiB");  // free
  CHECK(mebibytes_needed(20 * kMiB + 6) == "21 MiB");
  CHECK(mebibytes_needed(1) == "1 MiB");
  CHECK(mebibytes_needed(0) == "0 MiB");
  CHECK(mebibytes_needed(~u64{0}) == mebibytes(~u64{0}));
}

TEST_CASE("durations are exact to two units, estimates are rounded up") {
  CHECK(human_duration(125) == "2m05s");
  CHECK(human_duration(3 * 3600 + 7 * 60 + 59) == "3h07m");
  CHECK(human_duration(12 * 86400 + 3 * 3600) == "12d03h");
  CHECK(human_estimate(9.1) == "10 s");
  CHECK(human_estimate(60) == "1 min");
  CHECK(human_estimate(61) == "2 min");
}
