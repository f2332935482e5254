// SPDX-License-Identifier: Apache-2.0
#include "common/base/timed_call.h"

#include <doctest/doctest.h>

#include <atomic>
#include <semaphore>

namespace ckpt {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST_CASE("a call that returns in time has its result, and leaves no thread") {
  std::atomic<bool> late{false};
  {
    Result<TimedCall<int>> call =
        TimedCall<int>::begin([] { return 7; }, [&](int &) { late = true; });
    REQUIRE(call);
    int *result = call->wait_until(Clock::now() + std::chrono::hours(1));
    REQUIRE(result);
    CHECK(*result == 7);
  }
  CHECK(!late);
}

TEST_CASE("a call that is late is left behind, and its result goes to if_late") {
  auto may_return = std::make_shared<std::binary_semaphore>(0);
  auto got = std::make_shared<std::binary_semaphore>(0);
  auto value = std::make_shared<std::atomic<int>>(0);
  {
    Result<TimedCall<int>> call = TimedCall<int>::begin(
        [may_return] {
          may_return->acquire();
          return 3;
        },
        [got, value](int &result) {
          *value = result;
          got->release();
        });
    REQUIRE(call);
    CHECK(!call->wait_until(Clock::now() + milliseconds(1)));
  }
  may_return->release();
  got->acquire();
  CHECK(*value == 3);
}

TEST_CASE("the call's thread handles no signal of the program") {
  Result<TimedCall<bool>> call = TimedCall<bool>::begin([] {
    sigset_t now;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
    return ::sigismember(&now, SIGTERM) == 1 && ::sigismember(&now, SIGUSR1) == 1;
  });
  REQUIRE(call);
  bool *blocked = call->wait_until(Clock::now() + std::chrono::hours(1));
  REQUIRE(blocked);
  CHECK(*blocked);
}

}  // namespace
}  // namespace ckpt
