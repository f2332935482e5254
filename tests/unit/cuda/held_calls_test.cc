// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/entry/held_calls.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

using namespace ckpt::cuda;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

// Arguments in all registers and on the stack: eight of each kind are on the stack.
using Many = int (*)(int, long, int, long, int, long, double, float, double, float, double, float,
                     double, float, long, int, long, int, double, long, double, long);
long sum = 0;
double product = 0;

int many(int a, long b, int c, long d, int e, long f, double p, float q, double r, float s,
         double t, float u, double v, float w, long g, int h, long i, int j, double x, long k,
         double y, long l) {
  sum =
      a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l;
  product = p * q * r * s * t * u * v * w * x * y;
  return 42;
}

int call_many(Many f) {
  return f(1, 2, 3, 4, 5, 6, 1.5, 2.0f, 3.0, 0.5f, 2.0, 4.0f, 0.25, 2.0f, 7, 8, 9, 10, 3.0, 11, 7.0,
           12);
}

std::atomic<int> calls{0};
int count() { return ++calls; }

using Count = int (*)();
Count held_count() { return reinterpret_cast<Count>(held_thunk(reinterpret_cast<void *>(&count))); }

// Calls another held function from within.
int nested() { return held_count()(); }

// What a call gets for its arguments is the same in the fast path and after a wait.
void check_arguments(bool wait) {
  auto thunk = reinterpret_cast<Many>(held_thunk(reinterpret_cast<void *>(&many)));
  sum = 0, product = 0;
  int result = 0;
  if (wait) REQUIRE(HeldCalls::close(Clock::now() + 10s));
  std::thread call([&] { result = call_many(thunk); });
  std::this_thread::sleep_for(wait ? 20ms : 0ms);
  if (wait) CHECK(sum == 0);
  HeldCalls::open();
  call.join();
  CHECK(result == 42);
  CHECK(sum == 1 + 4 + 9 + 16 + 25 + 36 + 49 + 64 + 81 + 100 + 121 + 144);
  CHECK(product == 1.5 * 2 * 3 * 0.5 * 2 * 4 * 0.25 * 2 * 3 * 7);
}

}  // namespace

TEST_CASE("a held call gets all its arguments, in registers and on the stack") {
  check_arguments(false);
  check_arguments(true);
}

TEST_CASE("held calls wait while the gate is closed, and those inside are waited for") {
  static std::atomic<bool> inside{false}, leave{false};
  Count busy = [] {
    inside = true;
    while (!leave) std::this_thread::yield();
    return 0;
  };
  auto thunk = reinterpret_cast<Count>(held_thunk(reinterpret_cast<void *>(busy)));
  std::thread first(thunk);
  while (!inside) std::this_thread::yield();
  CHECK_FALSE(HeldCalls::close(Clock::now() + 5ms));
  leave = true;
  CHECK(HeldCalls::close(Clock::now() + 10s));
  first.join();
  calls = 0;
  std::thread second(held_count());
  std::thread ours([] {
    Held held;
    ++calls;
  });
  std::this_thread::sleep_for(20ms);
  CHECK(calls == 0);
  HeldCalls::open();
  second.join();
  ours.join();
  CHECK(calls == 2);
}

TEST_CASE("a held call within another one does not wait for itself") {
  calls = 0;
  {
    Held held;
    CHECK_FALSE(HeldCalls::close(Clock::now()));
    CHECK(reinterpret_cast<Count>(held_thunk(reinterpret_cast<void *>(&nested)))() == 1);
  }
  CHECK(HeldCalls::close(Clock::now() + 10s));
  HeldCalls::open();
}

TEST_CASE("threads that call all the time neither miss the gate nor stay behind it") {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&, call = held_count()] {
      while (!stop) call();
    });
  for (int round = 0; round < 50; round++) {
    REQUIRE(HeldCalls::close(Clock::now() + 10s));
    int before = calls;
    std::this_thread::sleep_for(100us);
    CHECK(calls == before);
    HeldCalls::open();
  }
  stop = true;
  for (std::thread &t : threads) t.join();
}

TEST_CASE("an address has one thunk") {
  CHECK((held_count() == held_count()));
  CHECK(held_thunk(reinterpret_cast<void *>(&many)) != reinterpret_cast<void *>(held_count()));
}

TEST_CASE("after the loss of the devices held calls fail") {
  calls = 0;
  Count thunk = held_count();
  lose_held_calls();
  CHECK(thunk() == CUDA_ERROR_DEVICE_UNAVAILABLE);
  CHECK(calls == 0);
}
