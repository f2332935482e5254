// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/late_call.h"

#include <cstdlib>

#include "common/base/clock.h"
#include "common/base/timed_call.h"

namespace ckpt::cuda {
namespace {

// A driver copies 2 to 5 GB/s, and what is left to it is usually small.
constexpr unsigned kDefaultSeconds = 300;
constexpr const char *kSecondsVariable = "CKPT_CUDA_DRIVER_TIMEOUT";

}  // namespace

unsigned driver_deadline() {
  const char *set = std::getenv(kSecondsVariable);
  int seconds = set == nullptr ? 0 : std::atoi(set);
  return seconds > 0 ? static_cast<unsigned>(seconds) : kDefaultSeconds;
}

// Without a thread, the call is made without a deadline.
std::optional<CUresult> call_in_time(std::function<CUresult()> function,
                                     std::function<void()> if_late) {
  auto after = [if_late = std::move(if_late)](CUresult &e) {
    if (e == CUDA_SUCCESS && if_late) if_late();
  };
  Result<TimedCall<CUresult>> call = TimedCall<CUresult>::begin(function, after);
  if (!call) return function();
  const CUresult *e = call->wait_until(Clock::now() + std::chrono::seconds(driver_deadline()));
  return e ? std::optional(*e) : std::nullopt;
}

}  // namespace ckpt::cuda
