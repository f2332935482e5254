// SPDX-License-Identifier: Apache-2.0
//
// Figures of a program for the contention model.
#include <doctest/doctest.h>

#include "tools/node_bench/cachegrind.h"
#include "tools/node_bench/miss_counter.h"
#include "tools/node_bench/task.h"

using namespace ckpt;
using namespace ckpt::tools;

TEST_CASE("misses are the sum of three of cachegrind's events, wherever they stand") {
  const char *file =
      "desc: LL cache: 1048576 B, 64 B, 16-way associative\ncmd: ./a summary: 9\n"
      "events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\nfn=main\n1 2 3\n"
      "summary: 1000 1 2 300 4 50 600 7 8000\n";
  CHECK(*misses_in(file) == 8052);
  CHECK(*misses_in("events: DLmw ILmr DLmr\nsummary: 1 20 300\n") == 321);
}

TEST_CASE("a file of cachegrind without the counts is an error") {
  CHECK(misses_in("").error().what == "cachegrind has written no count of ILmr");
  CHECK(misses_in("events: ILmr DLmr\nsummary: 1 2\n").error().what ==
        "cachegrind has written no count of DLmw");
  CHECK(misses_in("events: ILmr DLmr DLmw\nsummary: 1 2\n").error().what ==
        "cachegrind has written no count of DLmw");
  CHECK(misses_in("events: ILmr DLmr DLmw\nsummary: 1 x 3\n").error().what ==
        "cachegrind's count x is not a number");
}

TEST_CASE("a counter that had to share its register is extrapolated") {
  CHECK(extrapolated(100, 50, 50) == 100);
  CHECK(extrapolated(100, 50, 25) == 200);
  CHECK(extrapolated(0, 50, 0) == 0);
  CHECK(extrapolated(u64{1} << 60, u64{1} << 40, u64{1} << 39) == u64{1} << 61);
}

TEST_CASE("the misses of copies do not count as traffic of the program's own") {
  CHECK(memory_without_copies(10, 2) == 6);
  CHECK(memory_without_copies(3, 2) == 0);
}
