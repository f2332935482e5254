// SPDX-License-Identifier: Apache-2.0
#include "tools/node_bench/stream.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/clock.h"

namespace ckpt::tools {
namespace {

constexpr int kLeastRounds = 5;

// One thread's arrays, which it touches first, so that they are in the memory that is nearest to
// it.
struct Arrays {
  explicit Arrays(size_t n) : size(n), a(new double[n]), b(new double[n]), c(new double[n]) {
    for (size_t i = 0; i < n; i++) {
      a[i] = 0;
      b[i] = static_cast<double>(i);
      c[i] = 1;
    }
  }
  void triad(double s) {
    for (size_t i = 0; i < size; i++) a[i] = b[i] + s * c[i];
  }
  size_t size;
  std::unique_ptr<double[]> a, b, c;
};

}  // namespace

double stream_bandwidth(unsigned threads, size_t megabytes, double seconds) {
  const size_t elements = std::max<size_t>(1, megabytes * 1'000'000 / threads / 3 / sizeof(double));
  const double bytes = 3.0 * sizeof(double) * static_cast<double>(elements) * threads;
  double best = 1e30;
  bool last = false;
  Clock::time_point begun = Clock::now(), round;
  int rounds = -1;  // the first one only starts the clock
  std::barrier together(threads, [&]() noexcept {
    if (rounds >= 0) best = std::min(best, seconds_since(round));
    if (rounds < 0) begun = Clock::now();
    last = ++rounds >= kLeastRounds && seconds_since(begun) > seconds;
    round = Clock::now();
  });
  auto work = [&](unsigned) {
    Arrays mine(elements);
    together.arrive_and_wait();
    for (double s = 1; !last; s++) {
      mine.triad(s);
      together.arrive_and_wait();
    }
  };
  std::vector<std::thread> all;
  for (unsigned i = 1; i < threads; i++) all.emplace_back(work, i);
  work(0);
  for (std::thread &t : all) t.join();
  return bytes / best / 1e9;
}

}  // namespace ckpt::tools
