// SPDX-License-Identifier: Apache-2.0
#include "storage/write/workers.h"

#include <atomic>
#include <chrono>

#include <doctest/doctest.h>

namespace ckpt::test {

using namespace storage;
namespace {

constexpr size_t kBound = 100;

struct Yielding {
  std::atomic<unsigned> done{0};
  std::unique_ptr<Workers> workers = *Workers::start(2, kBound, true);

  void submit(size_t weight) {
    workers->submit(weight, [this](unsigned) { ++done; });
  }
  // As long as a worker that need not wait would certainly have begun.
  static void linger() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }
};

TEST_CASE("yielding workers wait until who submits is done") {
  Yielding y;
  for (int i = 0; i < 5; ++i) y.submit(kBound / 10);
  Yielding::linger();
  CHECK(y.done == 0);
  y.workers->drain();
  CHECK(y.done == 5);
  y.submit(1);
  Yielding::linger();
  CHECK(y.done == 5);
}

TEST_CASE("yielding workers begin when half of the bound is taken") {
  Yielding y;
  y.submit(kBound / 2);
  y.submit(1);
  while (y.done == 0) std::this_thread::yield();
  y.workers->drain();
  CHECK(y.done == 2);
}

TEST_CASE("yielding workers make room for who waits for it") {
  Yielding y;
  y.submit(kBound / 2);
  y.submit(kBound);  // returns only when the first is gone
  CHECK(y.done >= 1);
  y.workers->drain();
  CHECK(y.done == 2);
}

}  // namespace
}  // namespace ckpt::test
