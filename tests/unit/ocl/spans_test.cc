// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <random>

#include <doctest/doctest.h>

#include "libckpt-ocl/client/svm/spans.h"

using namespace ckpt::ocl;

TEST_CASE("parts are taken at their alignment, and joined again") {
  Spans s(1000);
  CHECK(s.take(10, 1) == 0u);
  CHECK(s.take(10, 128) == 128u);
  CHECK(s.take(100, 1) == 10u);
  CHECK_FALSE(s.all_free());
  CHECK_FALSE(s.take(900, 1).has_value());
  s.give(0, 10);
  s.give(128, 10);
  s.give(10, 100);
  CHECK(s.all_free());
  CHECK(s.take(1000, 4096) == 0u);
  CHECK_FALSE(s.take(1, 1).has_value());
}

TEST_CASE("no two parts overlap, whatever the order") {
  std::mt19937 random(1);
  Spans s(1u << 16);
  std::map<size_t, size_t> taken;
  for (int i = 0; i < 4000; i++) {
    size_t bytes = 1 + random() % 3000, alignment = size_t{1} << random() % 10;
    std::optional<size_t> at = random() % 2 == 0 ? s.take(bytes, alignment) : std::nullopt;
    if (at) {
      CHECK(*at % alignment == 0);
      CHECK(*at + bytes <= (1u << 16));
      auto next = taken.lower_bound(*at);
      CHECK((next == taken.end() || *at + bytes <= next->first));
      CHECK((next == taken.begin() || std::prev(next)->first + std::prev(next)->second <= *at));
      taken[*at] = bytes;
    } else if (!taken.empty()) {
      auto it = std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
      s.give(it->first, it->second);
      taken.erase(it);
    }
  }
  for (auto [at, bytes] : taken) s.give(at, bytes);
  CHECK(s.all_free());
}
