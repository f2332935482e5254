// SPDX-License-Identifier: Apache-2.0
#include "common/base/log_limit.h"

#include <doctest/doctest.h>

using namespace ckpt;

TEST_CASE("a peer gets so many lines in an interval, and the rest is counted") {
  LogLimit limit;
  for (int i = 0; i < LogLimit::kLines; i++)
    CHECK(limit.admit(std::chrono::seconds(1), 7) == u64{0});
  for (int i = 0; i < 5; i++) CHECK_FALSE(limit.admit(std::chrono::seconds(2), 7));
  CHECK(limit.admit(std::chrono::seconds(2), 8) == u64{0});  // others are not affected
  CHECK(limit.admit(std::chrono::seconds(61), 7) == u64{5});
  CHECK(limit.admit(std::chrono::seconds(61), 7) == u64{0});
}

TEST_CASE("peers that are quiet are forgotten, but not what was left out") {
  LogLimit limit;
  for (u64 peer = 0; peer < 100; peer++) (void)limit.admit(std::chrono::seconds(0), peer);
  for (int i = 0; i < LogLimit::kLines; i++) (void)limit.admit(std::chrono::seconds(0), 7);
  (void)limit.admit(std::chrono::seconds(100), 1000);
  CHECK(limit.peers() == 2);
  CHECK(limit.admit(std::chrono::seconds(200), 7) == u64{1});
}
