// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "libckpt-ocl/client/command/window.h"

using namespace ckpt;
using namespace ckpt::ocl;

namespace {

constexpr u64 kMs = 1'000'000;
constexpr Work kKernel{1, 0}, kOther{2, 0}, kCopy{3, 10'000};

struct FakePulse {
  bool done = false;
  u32 busy = 0;
  bool finished() const { return done; }
};

// A queue, and a device that takes a given time for each kind of command.
struct FakeQueue {
  struct Sent {
    u64 ns;
    std::shared_ptr<FakePulse> pulse;
  };
  WorkTimes times;
  BasicWindow<std::shared_ptr<FakePulse>> window;
  std::vector<Sent> under_way;
  u64 busy_ns = 0;

  // Sends commands until the window is full, at most `most`. Returns how many.
  size_t send(const Work &w, u64 ns, size_t most = 1'000'000) {
    size_t n = 0;
    for (; n < most && window.has_room(times); n++) {
      under_way.push_back({ns, nullptr});
      if (!window.sent(w, times)) continue;
      under_way.back().pulse = std::make_shared<FakePulse>();
      window.mark(under_way.back().pulse);
    }
    return n;
  }
  u64 under_way_ns() const {
    u64 ns = 0;
    for (const Sent &s : under_way) ns += s.ns;
    return ns;
  }
  // The device finishes everything.
  void run() {
    for (const Sent &s : under_way) {
      busy_ns += s.ns;
      if (!s.pulse) continue;
      s.pulse->busy = static_cast<u32>(busy_ns / 1000);
      s.pulse->done = true;
    }
    under_way.clear();
  }
};

}  // namespace

TEST_CASE("nothing follows a kernel that was never measured, and then the window holds 50 ms") {
  FakeQueue q;
  CHECK(q.send(kKernel, kMs / 2) == 1);
  q.run();
  CHECK(q.send(kKernel, kMs / 2) == 100);
}

TEST_CASE("the work under way is bounded by time, whatever a kernel takes") {
  for (u64 ns : {u64{5'000}, u64{50'000}, kMs, 20 * kMs, 200 * kMs, 5000 * kMs}) {
    CAPTURE(ns);
    FakeQueue q;
    for (int round = 0; round < 20; round++) {
      CHECK(q.send(kKernel, ns) > 0);
      CHECK(q.under_way_ns() <= kAhead + ns);
      q.run();
    }
    q.send(kKernel, ns);
    CHECK(q.under_way_ns() + ns > kAhead / 2);
  }
}

TEST_CASE("each kind of command has its own time, also when they come mixed") {
  FakeQueue q;
  for (int round = 0; round < 60; round++) {
    for (int i = 0; i < 20; i++) {
      q.send(kKernel, 100'000, 1);
      q.send(kOther, 10 * kMs, round % 3 == 0 ? 1 : 0);
      q.send(kCopy, 20'000, 1);
    }
    q.run();
  }
  CHECK(q.times.estimate(kOther) > 5 * kMs);
  CHECK(q.times.estimate(kOther) < 20 * kMs);
  CHECK(q.times.estimate(kKernel) < kMs);
}

TEST_CASE("a kernel that becomes slower fills the window once more, and then counts as slow") {
  FakeQueue q;
  for (int i = 0; i < 5; i++) q.send(kKernel, 10'000), q.run();
  q.send(kKernel, kMs), q.run();
  for (int i = 0; i < 3; i++) q.send(kKernel, kMs), q.run();
  q.send(kKernel, kMs);
  CHECK(q.under_way_ns() <= 2 * kAhead);
}

TEST_CASE("one long segment is forgotten after a few pulses") {
  FakeQueue q;
  for (int i = 0; i < 5; i++) q.send(kKernel, 10'000), q.run();
  q.busy_ns += 1000 * kMs;  // it waited for another queue
  for (int i = 0; i < 12; i++) q.send(kKernel, 10'000), q.run();
  CHECK(q.times.estimate(kKernel) < 30'000);
}

TEST_CASE("a window never blocks without a pulse under way") {
  FakeQueue q;
  q.send(kKernel, 1'000), q.run();
  q.send(kKernel, 1'000, 100);  // too little for a pulse
  const Work work[] = {kKernel};
  WorkCount counts[] = {{work[0], 1}};
  for (int i = 0; i < 40; i++) q.times.learn(counts, 10'000 * kMs);
  CHECK(q.window.has_room(q.times));
}

TEST_CASE("completions without a time, or that overtake each other, are not measured") {
  FakeQueue q;
  q.send(kKernel, kMs), q.run();
  CHECK(q.window.has_room(q.times));
  u64 before = q.times.estimate(kKernel);
  q.send(kKernel, kMs);
  for (auto &s : q.under_way)
    if (s.pulse) s.pulse->done = true;  // refused: busy stays 0
  q.under_way.clear();
  CHECK(q.window.has_room(q.times));
  CHECK(q.times.estimate(kKernel) == before);
  q.send(kKernel, kMs);
  u32 busy = 900;  // less than the last one
  for (auto &s : q.under_way)
    if (s.pulse) *s.pulse = {true, busy--};
  CHECK(q.window.has_room(q.times));
  CHECK(q.times.estimate(kKernel) == before);
}

TEST_CASE("the time that a queue was busy may wrap") {
  FakeQueue q;
  q.busy_ns = (u64{1} << 32) * 1000 - 20 * kMs;
  q.send(kKernel, kMs / 2, 1), q.run();  // more than can be told at once: not measured
  for (int i = 0; i < 30; i++) q.send(kKernel, kMs / 2), q.run();
  CHECK(q.times.estimate(kKernel) > kMs / 4);
  CHECK(q.times.estimate(kKernel) < kMs);
}

TEST_CASE("after a restore, nothing is under way and nothing is known") {
  FakeQueue q;
  q.send(kKernel, kMs), q.run();
  q.send(kKernel, kMs);
  q.under_way.clear();
  q.busy_ns = 0;
  q.window.reset();
  q.times.forget();
  CHECK(q.send(kKernel, kMs) == 1);
  q.run();
  CHECK(q.send(kKernel, kMs) == 50);
}

TEST_CASE("many kinds in one segment are measured together") {
  FakeQueue q;
  for (u64 i = 0; i < 100; i++) q.send({100 + i, 1'000}, 1'000);
  q.run();
  CHECK(q.window.has_room(q.times));
}
