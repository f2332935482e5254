// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/late_memory.h"

#include <chrono>
#include <thread>

#include "libckpt-cuda/memory/ipc_memory.h"

namespace ckpt::cuda {
namespace {

constexpr std::chrono::milliseconds kLatePause{10};

// The keeper says when an owner has ended, so a limit of time is not needed: a suspended owner may
// return much later.
Result<> wait_for_memory() {
  for (;;) {
    CKPT_TRY(bool all, ipc_memory().map_late());
    if (all) return {};
    std::this_thread::sleep_for(kLatePause);
  }
}

}  // namespace

Result<> LateMemory::start(std::function<void(const Result<> &)> then) {
  CKPT_TRY(TimedCall<bool> call, TimedCall<bool>::begin([then = std::move(then)] {
             then(wait_for_memory());
             return true;
           }));
  waiting_.emplace(std::move(call));
  return {};
}

bool LateMemory::wait_until(Clock::time_point deadline) {
  if (waiting_ && waiting_->wait_until(deadline) == nullptr) return false;
  waiting_.reset();
  return true;
}

}  // namespace ckpt::cuda
