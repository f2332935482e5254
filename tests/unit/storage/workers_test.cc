// SPDX-License-Identifier: Apache-2.0
#include "storage/write/workers.h"

#include <atomic>
#include <chrono>

#include <doctest/doctest.h>

namespace ckpt::test {

using namespace storage;
namespace {

constexpr size_t kLimit = 100;

struct Yielding {
  std::atomic<unsigned> done{0};
  std::unique_ptr<Workers> workers = *Workers::start(2, kLimit, true);

  void submit(size_t weight) {
    workers->submit(weight, [this](unsigned) { ++done; });
  }
  // Long enough for a worker that does not wait to start.
  static void linger() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }
};

TEST_CASE("yielding workers do not start before drain() while little is waiting") {
  Yielding y;
  for (int i = 0; i < 5; ++i) y.submit(kLimit / 10);
  Yielding::linger();
  CHECK(y.done == 0);
  y.workers->drain();
  CHECK(y.done == 5);
  y.submit(1);
  Yielding::linger();
  CHECK(y.done == 5);
}

TEST_CASE("yielding workers start when half of the limit is in use") {
  Yielding y;
  y.submit(kLimit / 2);
  y.submit(1);
  while (y.done == 0) std::this_thread::yield();
  y.workers->drain();
  CHECK(y.done == 2);
}

TEST_CASE("yielding workers start when submit() has to wait") {
  Yielding y;
  y.submit(kLimit / 2);
  y.submit(kLimit);  // returns only after the first task
  CHECK(y.done >= 1);
  y.workers->drain();
  CHECK(y.done == 2);
}

}  // namespace
}  // namespace ckpt::test
