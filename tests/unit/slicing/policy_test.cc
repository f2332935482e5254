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

// A device that runs kernels one after the other, an owner who draws `frames` a second, each for
// `frame_s`, and a guest with slices of the right length. Of 100 tests `late` are late without a
// load: the host was busy.
struct Simulation {
  double frames = 0, frame_s = 0;
  unsigned late = 0;
  std::mt19937 random{17};
  double now = 0, device_free = 0, next_frame = 0;
  int drawn = 0;

  // A frame that is late appears at the next 1/F, as on a display.
  void draw_until(double time) {
    while (frames > 0 && next_frame <= time) {
      device_free = std::max(next_frame, device_free) + frame_s;
      ++drawn;
      next_frame = (std::floor(device_free * frames) + 1) / frames;
    }
  }
  double run(double seconds) {
    draw_until(now);
    device_free = std::max(now, device_free) + seconds;
    return device_free;
  }
  double test() {
    double begin = now;
    std::exponential_distribution<double> lateness(1 / 3e-3);
    now = run(2e-5) + 0.15e-3 + (random() % 100 < late ? lateness(random) : 0);
    return (now - begin) * 1e9;
  }

  // The guest's share of `seconds`.
  double guest(Cooperation &c, double seconds) {
    double work = 0;
    while (now < seconds) {
      double slice = c.slice_ns() * 0.95 / 1e9;
      double begin = now;
      now = run(slice) + 1e-4;
      work += slice;
      if (c.used((now - begin) * 1e9)) pause(c);
    }
    draw_until(now);
    return work / now;
  }
  void pause(Cooperation &c) {
    for (;;) {
      double wait = c.tested(test()), again = c.probe_ns();
      now += (c.tests_again() ? again : wait) / 1e9;
      if (!c.tests_again()) return;
    }
  }
};

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
  for (u32 i = 1; i < s.lows; ++i) {
    c.used(1e6);
    CHECK(c.tested(2e5) == doctest::Approx(1e9 / 60 - 1e6));
  }
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

TEST_CASE("tests in the pause are spread over it, and a low load ends it") {
  CooperationSettings s;
  s.window = 1;
  s.lows = 6;
  Cooperation c(s);
  c.used(2e6);
  for (double left : {1.0, 0.75, 0.5}) {
    CHECK(c.tested(2e5) == doctest::Approx(left * (1e9 / 60 - 2e6)));
    CHECK(c.tests_again());
  }
  CHECK(c.tested(2e5) == doctest::Approx(c.probe_ns()));
  CHECK(!c.tests_again());
  c.used(1e9);
  CHECK(c.tested(2e5) > 0);
  CHECK(c.tested(2e5) == 0);
  CHECK(!c.tests_again());
}

TEST_CASE("a guest alone keeps its throughput, also where tests are late without a load") {
  for (auto [late, least] : {std::pair{0u, 0.95}, {3u, 0.94}, {8u, 0.8}}) {
    Simulation s{0, 0, late};
    Cooperation c({});
    double share = s.guest(c, 60);
    INFO(late << " of 100 late: " << share);
    CHECK(share > least);
  }
}

TEST_CASE("the owner's frames are within 1 % beside a guest") {
  struct Owner {
    double frames, frame_s, fps, share, least;
  };
  for (Owner o : {Owner{30, 4e-3, 30, 0.4, 0.45},
                  {30, 4e-3, 60, 0.5, 0.4},
                  {24, 3e-3, 60, 0.5, 0.4},
                  {60, 10e-3, 60, 0.75, 0.11},
                  {144, 3e-3, 144, 0.6, 0.2}}) {
    CooperationSettings settings;
    settings.frames = o.fps, settings.frame_share = o.share;
    for (unsigned late : {0u, 8u}) {
      Simulation s{o.frames, o.frame_s, late};
      Cooperation c(settings);
      double share = s.guest(c, 60);
      INFO(o.frames << " frames a second, " << late << " of 100 late: " << share);
      CHECK(s.drawn / s.now > 0.99 * o.frames);
      CHECK(share > o.least);
    }
  }
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
