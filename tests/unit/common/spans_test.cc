// SPDX-License-Identifier: Apache-2.0
#include "common/base/spans.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using namespace ckpt;

TEST_CASE("Spans agrees with a map of every byte") {
  constexpr u64 kBase = 1 << 16, kBytes = 256;
  std::mt19937 chance(1);
  Spans spans(kBase, kBytes);
  std::vector<bool> free(kBytes, true);
  std::vector<std::pair<u64, u64>> taken;
  auto fits = [&](u64 at, u64 bytes) {
    for (u64 i = at; i < at + bytes; i++)
      if (i >= kBytes || !free[i]) return false;
    return true;
  };
  for (int step = 0; step < 20'000; step++) {
    if (chance() % 2 == 0 && !taken.empty()) {
      std::swap(taken[chance() % taken.size()], taken.back());
      auto [at, bytes] = taken.back();
      taken.pop_back();
      spans.give(kBase + at, bytes);
      std::fill_n(free.begin() + static_cast<long>(at), bytes, true);
      continue;
    }
    u64 bytes = 1 + chance() % 24, align = u64{1} << chance() % 5;
    std::optional<u64> at;
    for (u64 i = 0; !at && i < kBytes; i += align)  // first fit
      if (fits(i, bytes)) at = i;
    std::optional<u64> got = spans.take(bytes, align);
    REQUIRE(got.has_value() == at.has_value());
    if (!got) continue;
    REQUIRE(*got == kBase + *at);
    taken.emplace_back(*at, bytes);
    std::fill_n(free.begin() + static_cast<long>(*at), bytes, false);
  }
  for (auto [at, bytes] : taken) spans.give(kBase + at, bytes);
  CHECK(spans.holds(kBase, kBytes));
}
