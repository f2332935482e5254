// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/changes.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using namespace ckpt;
using namespace ckpt::remote::cuda;

namespace {

using Runs = std::vector<std::pair<u64, u64>>;

Runs changes(const Bytes &now, const Bytes &then, u64 gap) {
  Runs all;
  for_each_change(now.data(), then.data(), now.size(), gap,
                  [&](u64 at, u64 bytes) { all.emplace_back(at, bytes); });
  return all;
}

}  // namespace

TEST_CASE("changes are found in units of four bytes, and near ones are joined") {
  Bytes then(10'000), now = then;
  CHECK(changes(now, then, 0).empty());
  now[5] = now[9'999] = std::byte{1};
  CHECK(changes(now, then, 0) == Runs{{4, 4}, {9'996, 4}});
  now[4'095] = now[4'096] = std::byte{1};  // on two pages
  CHECK(changes(now, then, 0) == Runs{{4, 4}, {4'092, 8}, {9'996, 4}});
  now[20] = std::byte{1};
  CHECK(changes(now, then, 0).size() == 4);
  CHECK(changes(now, then, 12) == Runs{{4, 20}, {4'092, 8}, {9'996, 4}});
  now.resize(10'003), then.resize(10'003);
  now[10'002] = std::byte{1};
  CHECK(changes(now, then, 0).back() == std::pair<u64, u64>{9'996, 7});
}

TEST_CASE("changes make one copy equal to the other, and leave the rest alone") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; round++) {
    Bytes then(random() % 20'000 + 1), now = then;
    for (u64 n = random() % 200; n > 0; n--)
      now[random() % now.size()] = static_cast<std::byte>(random());
    u64 gap = round % 2 ? kWideGap : 0, end = 0;
    for (auto [at, bytes] : changes(now, then, gap)) {
      CHECK(at + bytes <= now.size());
      if (end > 0) CHECK(at > end + gap);
      end = at + bytes;
      std::copy_n(now.begin() + static_cast<i64>(at), bytes, then.begin() + static_cast<i64>(at));
    }
    CHECK(then == now);
  }
}
