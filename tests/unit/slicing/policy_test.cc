// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "slicing/cooperation.h"
#include "slicing/slice_size.h"

using namespace ckpt;
using namespace ckpt::slicing;

namespace {

using Model = std::function<double(u64 blocks)>;  // blocks to nanoseconds

// Launches until a slice is within 20 % of the target; the number of launches.
int launches_to_target(SliceSize &size, const Model &model, u64 grid, double target) {
  for (int launch = 1; launch <= 50; ++launch) {
    u64 blocks = size.next(grid);
    double ns = model(blocks);
    size.took(blocks, ns, target);
    if (std::abs(ns - target) <= 0.2 * target) return launch;
  }
  return 1000;
}

}  // namespace

TEST_CASE("the size is within 20 % of the target after 10 launches, over six orders of speed") {
  for (double per_block : {10.0, 1e3, 1e5})
    for (double target : {1e6, 8e6, 5e7})
      for (double overhead : {0.0, 5e3, 1e5}) {
        SliceSize size;
        u64 grid = 100'000'000;
        auto model = [&](u64 b) { return overhead + per_block * static_cast<double>(b); };
        INFO(per_block << " " << target << " " << overhead);
        CHECK(launches_to_target(size, model, grid, target) <= 10);
      }
}

TEST_CASE("a device that runs many blocks at once is filled") {
  SliceSize size;
  auto waves = [](u64 blocks) { return 1e5 * std::ceil(static_cast<double>(blocks) / 400); };
  CHECK(launches_to_target(size, waves, 1'000'000, 8e6) <= 10);
}

TEST_CASE("the size follows the load, and one slow slice does not change it") {
  SliceSize size;
  double per_block = 1e4;
  auto model = [&](u64 b) { return per_block * static_cast<double>(b); };
  launches_to_target(size, model, 1 << 20, 8e6);
  for (int i = 0; i < 4; ++i) size.took(size.next(1 << 20), model(size.next(1 << 20)), 8e6);
  u64 before = size.next(1 << 20);
  size.took(before, 50 * model(before), 8e6);
  CHECK(size.next(1 << 20) == before);
  per_block *= 8;
  CHECK(launches_to_target(size, model, 1 << 20, 8e6) <= 10);
  per_block /= 64;
  CHECK(launches_to_target(size, model, 1 << 20, 8e6) <= 10);
}

TEST_CASE("random histories: a size is always between 1 and the grid") {
  std::mt19937_64 random(3);
  SliceSize size;
  for (int i = 0; i < 100'000; ++i) {
    u64 grid = 1 + random() % (u64{1} << (random() % 40));
    u64 blocks = size.next(grid);
    REQUIRE(blocks >= 1);
    REQUIRE(blocks <= grid);
    double ns = std::pow(10.0, static_cast<double>(random() % 300) / 10 - 10);
    size.took(random() % 5 == 0 ? random() % 7 : blocks, random() % 9 == 0 ? 0.0 : ns, 8e6);
  }
}

TEST_CASE("the guest starts in periodic mode, and R lows in a row make it continuous") {
  CooperationSettings s;
  s.window = 1;
  Cooperation c(s);
  CHECK(c.slice_ns() == doctest::Approx(1e9 / 60 / 2));
  for (u32 i = 1; i < s.lows; ++i) CHECK(c.tested(2e5) == doctest::Approx(1e9 / 60));
  CHECK(c.tested(2e5) == 0);
  CHECK(c.continuous());
  CHECK(c.slice_ns() == doctest::Approx(1e9 / 60));
  // One high resets the count.
  CHECK(c.tested(5e6) > 0);
  for (u32 i = 1; i < s.lows; ++i) CHECK(c.tested(2e5) > 0);
  CHECK(c.tested(2e5) == 0);
}

TEST_CASE("a light load, of which the median does not tell, is a high load") {
  CooperationSettings s;
  Load load(s);
  std::mt19937 random(5);
  int false_lows = 0;
  for (int i = 0; i < 10'000; ++i) {
    load.tested(random() % 5 == 0 ? 4.06e6 : 0.22e6);
    if (i > 40) false_lows += load.low();
  }
  CHECK(false_lows < 200);
  // An idle device, with its rare outliers, is a low load most of the time.
  int low = 0;
  for (int i = 0; i < 10'000; ++i) {
    load.tested(random() % 50 == 0 ? 5e6 : 0.19e6 + static_cast<double>(random() % 300'000));
    low += load.low();
  }
  CHECK(low > 9000);
}

TEST_CASE("random histories: a turn is never longer than a slice") {
  std::mt19937_64 random(11);
  for (int history = 0; history < 200; ++history) {
    CooperationSettings s;
    s.lows = 1 + random() % 9;
    s.window = random() % 20;
    s.margin = static_cast<double>(random() % 100) / 10;
    Cooperation c(s);
    double turn = 0;
    for (int i = 0; i < 500; ++i) {
      double slice = c.slice_ns();
      REQUIRE(slice <= s.period_ns());
      double used = slice * static_cast<double>(random() % 100) / 100;
      if (c.fits(used)) {
        turn += used;
        REQUIRE(turn <= slice);
        if (!c.used(used)) continue;
      }
      turn = 0;
      double pause = c.tested(1e5 + static_cast<double>(random() % 1'000'000));
      REQUIRE((pause == 0) == c.continuous());
    }
  }
}
