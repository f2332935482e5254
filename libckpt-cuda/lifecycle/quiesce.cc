// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/quiesce.h"

#include <algorithm>
#include <thread>

#include "common/base/clock.h"
#include "common/base/timed_call.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/entry/streams.h"
#include "libckpt-cuda/lifecycle/host_functions.h"
#include "libckpt-cuda/memory/contexts.h"

namespace ckpt::cuda {
namespace {

using std::chrono::milliseconds;

// How long the gate stays closed while a host function runs, and for how long it then opens.
constexpr milliseconds kClosedStep{20};
constexpr milliseconds kOpenStep{5};
// Captures are short, because a program records work and does not wait for it. A capture that lasts
// longer makes the checkpoint fail.
constexpr milliseconds kCaptureLimit{2000};

Result<> synchronize(const ContextInfo &c) {
  CurrentContext current(c.handle);
  CUresult e = current.status() == CUDA_SUCCESS ? driver().cuCtxSynchronize() : current.status();
  if (e == CUDA_SUCCESS) return {};
  return fail_with_hint(
      fmt::format("a CUDA context on device {} has failed with {}", c.device, error_name(e)),
      "the program has lost this context: fix the failing kernel or copy");
}

Result<> synchronize_all(const std::vector<ContextInfo> &contexts) {
  Result<> outcome;
  for (const ContextInfo &c : contexts) {
    Result<> idle = synchronize(c);
    if (!idle && outcome) outcome = std::move(idle);
  }
  return outcome;
}

// Opens the gate until no host function runs, and for kOpenStep at most: calls that come in submit
// new work, which must be waited for in turn.
void let_host_calls_end(Clock::time_point deadline) {
  Clock::time_point end = std::min(deadline, Clock::now() + kOpenStep);
  close_gate_after_host_calls(true);
  gate().open();
  while (host_calls_running() > 0 && Clock::now() < end)
    std::this_thread::sleep_for(milliseconds(1));
  gate().close();
  close_gate_after_host_calls(false);
}

Result<> wait_for_calls(Clock::time_point deadline) {
  for (;;) {
    if (gate().wait_empty(std::min(deadline, Clock::now() + kClosedStep))) return {};
    if (Clock::now() >= deadline)
      return fail_with_hint("a CUDA call did not return in time; it may be waiting for a kernel",
                            "try again, or wait longer with --timeout");
    if (host_calls_running() > 0) let_host_calls_end(deadline);
  }
}

// True: calls have come in through the gate, which was open for a capture.
Result<bool> wait_for_captures(Clock::time_point deadline) {
  Clock::time_point end = std::min(deadline, Clock::now() + kCaptureLimit);
  bool opened = false;
  for (; capturing(); opened = true) {
    if (Clock::now() >= end)
      return fail_with_hint("a stream is being captured into a graph",
                            "try again after the capture");
    gate().open();
    std::this_thread::sleep_for(milliseconds(1));
    gate().close();
    gate().wait_empty(end);
  }
  return opened;
}

// cuCtxSynchronize has no time limit, so a thread of its own waits for all contexts. After the
// deadline it waits on, and ends when the device becomes idle. False: calls have come in through
// the gate, which was open for a host function.
Result<bool> wait_until_idle(Clock::time_point deadline) {
  CKPT_TRY(TimedCall<Result<>> wait, TimedCall<Result<>>::begin([contexts = live_contexts()] {
             return synchronize_all(contexts);
           }));
  Result<> *outcome = nullptr;
  while (!(outcome = wait.wait_until(std::min(deadline, Clock::now() + kClosedStep)))) {
    if (Clock::now() >= deadline)
      return fail_with_hint("kernels are still running", "wait longer with --timeout");
    if (host_calls_running() == 0) continue;
    let_host_calls_end(deadline);
    return false;
  }
  CKPT_CHECK(*outcome);
  return true;
}

}  // namespace

Result<> quiesce_devices(Clock::time_point deadline) {
  gate().close();
  for (bool idle = false; !idle;) {
    CKPT_CHECK(wait_for_calls(deadline));
    CKPT_TRY(bool opened, wait_for_captures(deadline));
    if (opened) continue;
    CKPT_TRY(idle, wait_until_idle(deadline));
  }
  return {};
}

}  // namespace ckpt::cuda
