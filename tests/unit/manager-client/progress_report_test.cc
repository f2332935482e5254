// SPDX-License-Identifier: Apache-2.0
#include "manager-client/progress_report.h"

#include <doctest/doctest.h>

using namespace ckpt;
using namespace ckpt::manager_client;

TEST_CASE("progress counts calls beyond 32 bits, and the time since the last one") {
  ProgressReport report;
  CHECK_FALSE(report.wanted());
  report.start(std::chrono::milliseconds(100));
  CHECK(report.wanted());
  CHECK_FALSE(report.make({.count = 0, .last = 0, .copied = 0}, 5'000));  // no call yet
  auto first = report.make({.count = 0xfffffff0, .last = 1'000'000, .copied = 7}, 3'000'000);
  REQUIRE(first);
  CHECK(first->calls == 0xfffffff0);
  CHECK(first->idle_us == 2'000);
  CHECK(first->copied == 7);
  // The counter of the participants has wrapped around.
  auto second = report.make({.count = 0x10, .last = 9'000'000, .copied = 7}, 8'000'000);
  REQUIRE(second);
  CHECK(second->calls == u64{0x100000010});
  CHECK(second->idle_us == 0);  // a call that came after the time was read
  report.stop();
  CHECK_FALSE(report.wanted());
}
