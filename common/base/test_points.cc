// SPDX-License-Identifier: Apache-2.0
#include "common/base/test_points.h"

#include <signal.h>

#include <atomic>
#include <cstdlib>

#include <fmt/format.h>

namespace ckpt {
namespace {

bool under_test() {
  static constinit std::atomic<int> wanted{-1};
  int known = wanted.load(std::memory_order_relaxed);
  if (known < 0) {
    known = ::secure_getenv("CKPT_TEST_STOP_AT") || ::secure_getenv("CKPT_TEST_HOLD_AT") ? 1 : 0;
    wanted.store(known, std::memory_order_relaxed);
  }
  return known != 0;
}

}  // namespace

void test_point(std::string_view name) {
  if (!under_test()) return;
  if (const char *stop = ::secure_getenv("CKPT_TEST_STOP_AT"); stop && name == stop)
    ::raise(SIGKILL);
  if (const char *hold = ::secure_getenv("CKPT_TEST_HOLD_AT"); hold && name == hold)
    ::raise(SIGSTOP);
}

void test_point_before_sending(u16 type, std::string_view of) {
  if (under_test()) test_point(fmt::format("send-{}{}", of, type));
}

void test_point_after_sending(u16 type, std::string_view of) {
  if (under_test()) test_point(fmt::format("sent-{}{}", of, type));
}

void test_point_after_receiving(u16 type, std::string_view of) {
  if (under_test()) test_point(fmt::format("got-{}{}", of, type));
}

}  // namespace ckpt
