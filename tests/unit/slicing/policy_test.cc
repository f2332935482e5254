// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "slicing/cooperation.h"
#include "slicing/slice_size.h"
#include "slicing/turns.h"

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

// A device that runs kernels one after the other. The owner's program draws `frames` per second,
// each with `kernels` kernels, which take `frame_s` in all. The guest determines the size of its
// slices itself. Of 100 load tests, `late` are late although the device is idle, because the host
// is busy. Times are in seconds.
struct Simulation {
  double frames = 0, frame_s = 0;
  int kernels = 1;
  unsigned late = 0;
  std::mt19937 random{17};
  double now = 0, device_free = 0, next_kernel = 0;
  int left = 0;  // kernels of this frame
  int drawn = 0;
  SliceSize size;

  // The owner's host waits for each kernel of a frame. A frame that is late appears at the next
  // 1/F, as on a display.
  void draw_until(double time) {
    while (frames > 0 && next_kernel <= time) {
      device_free = std::max(next_kernel, device_free) + frame_s / kernels;
      next_kernel = device_free + 5e-5;
      if (left == 0) left = kernels;
      if (--left > 0) continue;
      ++drawn;
      next_kernel = (std::floor(device_free * frames) + 1) / frames;
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
    for (u32 i = 1; i < CooperationSettings().kernels; ++i) now = run(5e-5);
    now = run(5e-5) + 0.15e-3 + (random() % 100 < late ? lateness(random) : 0);
    return (now - begin) * 1e9;
  }

  // The guest's share of `seconds`.
  double guest(Cooperation &c, double seconds) {
    constexpr double kBlock = 1e-5;
    double work = 0;
    while (now < seconds) {
      u64 blocks = size.next(1 << 20);
      double slice = static_cast<double>(blocks) * kBlock, begin = now;
      now = run(slice) + 1e-4;
      work += slice;
      size.took(blocks, (now - begin) * 1e9, c.slice_ns());
      if (c.used((now - begin) * 1e9, begin * 1e9)) pause(c);
    }
    draw_until(now);
    return work / now;
  }
  void pause(Cooperation &c) {
    for (;;) {
      double taken = test(), turn = c.tested(taken, now * 1e9);
      now = std::max(now, (c.tests_again() ? c.next_test() : turn) / 1e9);
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

TEST_CASE(
    "slices that waited for the owner's kernels change neither the size nor what is expected") {
  SliceSize size;
  auto model = [](u64 b) { return 1e4 * static_cast<double>(b); };
  launches_to_target(size, model, 1 << 20, 8e6);
  for (int i = 0; i < 4; ++i) size.took(size.next(1 << 20), model(size.next(1 << 20)), 8e6);
  u64 before = size.next(1 << 20);
  for (int i = 0; i < 100; ++i) {  // two of three wait
    size.took(before, model(before) + (i % 3 == 0 ? 0 : 1e7), 8e6);
    REQUIRE(size.next(1 << 20) == before);
    REQUIRE(size.expected_ns(before) == doctest::Approx(model(before)));
  }
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
  double turn = s.period_ns(), now = 0;
  CHECK(c.slice_ns() == doctest::Approx(turn / 2));
  for (u32 i = 1; i < s.lows; ++i) {
    c.used(1e6, now);
    double next = c.tested(2e5, now + 1.2e6);
    CHECK(next == doctest::Approx(now + turn));  // one turn in each 1/F
    now = next;
  }
  c.used(1e6, now);
  CHECK(c.tested(2e5, now + 1.2e6) == doctest::Approx(now + 1.2e6));
  CHECK(c.continuous());
  CHECK(c.slice_ns() == doctest::Approx(turn));
  // One high resets the count.
  c.used(1e6, now);
  CHECK(c.tested(5e6, now + 6e6) == doctest::Approx(now + turn));
  for (u32 i = 1; i < s.lows; ++i) CHECK(c.tested(2e5, now + 6e6) > now + 6e6);
  CHECK(c.tested(2e5, now + 6e6) == doctest::Approx(now + 6e6));
}

TEST_CASE("a light load, of which the median does not tell, is a high load") {
  CooperationSettings s;
  DeviceLoad load(s);
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
  double now = 2e6, turn = s.period_ns();
  c.used(2e6, 0);
  for (int left : {4, 3, 2}) {
    CHECK(c.tested(2e5, now) == doctest::Approx(turn));
    REQUIRE(c.tests_again());
    CHECK(c.next_test() == doctest::Approx(now + (turn - now) / left));
    now = c.next_test();
  }
  CHECK(c.tested(2e5, now) == doctest::Approx(turn));
  CHECK(!c.tests_again());
  c.used(1e9, turn);
  now = turn + 1e9;
  CHECK(c.tested(2e5, now) == doctest::Approx(now + turn / 10));  // the shortest pause
  CHECK(c.tested(2e5, now) == now);
  CHECK(!c.tests_again());
}

TEST_CASE("a test that waited for a frame begins the turn behind it, but not a second one in 1/F") {
  CooperationSettings s;
  Cooperation c(s);
  double period = s.period_ns();
  c.used(5e6, 0);
  CHECK(c.tested(2e5, 5.2e6) == doctest::Approx(period));
  CHECK(c.tested(4e6, 0.6 * period) == doctest::Approx(period));
  CHECK(c.tests_again());
  CHECK(c.tested(4e6, 0.9 * period) == doctest::Approx(0.9 * period));
  CHECK(!c.tests_again());
}

TEST_CASE("a clock that goes back, as after a restore elsewhere, does not prolong the pause") {
  CooperationSettings s;
  Cooperation c(s);
  c.used(1e6, 1e15);
  CHECK(c.tested(2e5, 1e6) <= 1e6 + s.period_ns());
}

TEST_CASE("a guest alone keeps its throughput, also where tests are late without a load") {
  for (auto [late_of_100, least] : {std::pair{0u, 0.97}, {3u, 0.94}, {8u, 0.8}}) {
    unsigned late = late_of_100;  // a lambda cannot capture the former (C++20, clang 14)
    Simulation s;
    s.late = late;
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
  for (Owner o : {Owner{30, 4e-3, 30, 0.3, 0.6},
                  {30, 4e-3, 60, 0.5, 0.45},
                  {24, 3e-3, 60, 0.5, 0.45},
                  {60, 7.5e-3, 60, 0.55, 0.4},
                  {60, 10e-3, 60, 0.7, 0.27},
                  {144, 3e-3, 144, 0.6, 0.33}}) {
    CooperationSettings settings;
    settings.frames = o.fps, settings.frame_share = o.share;
    for (unsigned late : {0u, 8u})
      for (int kernels : {1, 3}) {
        Simulation s{o.frames, o.frame_s, kernels, late};
        Cooperation c(settings);
        double share = s.guest(c, 60);
        INFO(o.frames << " frames a second of " << kernels << " kernels, " << late
                      << " of 100 late: " << share);
        CHECK(s.drawn / s.now > 0.99 * o.frames);
        CHECK(share > o.least);
      }
  }
}

TEST_CASE("random histories: a turn is never longer than a slice, and never begins in the past") {
  std::mt19937_64 random(11);
  for (int history = 0; history < 200; ++history) {
    CooperationSettings s;
    s.lows = 1 + random() % 9;
    s.window = random() % 20;
    s.margin = static_cast<double>(random() % 100) / 10;
    Cooperation c(s);
    double turn = 0, now = 0;
    for (int i = 0; i < 500; ++i) {
      double slice = c.slice_ns();
      REQUIRE(slice <= s.period_ns());
      double used = slice * static_cast<double>(random() % 100) / 100;
      if (c.fits(used)) {
        turn += used, now += used;
        REQUIRE(turn <= slice);
        if (!c.used(used, now - used)) continue;
      }
      turn = 0;
      double taken = 1e5 + static_cast<double>(random() % 1'000'000);
      now += taken;
      double next = c.tested(taken, now);
      REQUIRE(next >= now);
      REQUIRE(next <= now + s.period_ns());
      REQUIRE((!c.tests_again() || (next >= c.next_test() && c.next_test() > now)));
      REQUIRE((!c.continuous() || next == now));
      now = next;
    }
  }
}

TEST_CASE("the turns of a process are those of the loop, in the times of the clock") {
  Settings s;
  s.guest = true;
  Turns turns(s);
  Cooperation loop(s.cooperation);
  const Clock::time_point begin{std::chrono::seconds(1000)};
  auto ns = [](Clock::time_point t) {
    return std::chrono::duration<double, std::nano>(t.time_since_epoch()).count();
  };
  CHECK(turns.target_ns() == loop.slice_ns());
  bool over = turns.used(loop.slice_ns(), begin);
  CHECK(over == loop.used(loop.slice_ns(), ns(begin)));
  CHECK(!turns.has_room(loop.slice_ns()));
  Clock::time_point now = begin + std::chrono::milliseconds(9);
  Turns::After after = turns.tested("turn", 1e5, now);
  double turn = loop.tested(1e5, ns(now));
  CHECK(ns(after.turn) == doctest::Approx(turn));
  REQUIRE(after.test.has_value() == loop.tests_again());
  if (after.test) CHECK(ns(*after.test) == doctest::Approx(loop.next_test()));
}

TEST_CASE("without a guest there are no turns, and a target of one's own stays") {
  Settings s;
  s.slice_ns = 5e6;
  Turns turns(s);
  CHECK(turns.target_ns() == 5e6);
  CHECK(!turns.used(1e12, Clock::time_point{}));
  CHECK(turns.has_room(1e12));
  s.guest = true;
  CHECK(Turns(s).target_ns() == 5e6);
}
