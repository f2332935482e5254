// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/quiesce.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "libckpt-cuda/entry/calls.h"
#include "libckpt-cuda/lifecycle/blockers.h"
#include "libckpt-cuda/memory/contexts.h"

namespace ckpt::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How long a host function may keep the gate shut before it is opened for what it may wait for.
constexpr milliseconds kPatience{20};
constexpr milliseconds kMoment{5};
// A capture is a program's setup, and short; one that lasts longer is refused.
constexpr milliseconds kCapturePatience{2000};

// The driver has no call that waits for a context and for a time, so a thread waits for all
// contexts. Where the time is over it is left behind, and ends when the device does.
struct Waiting {
  std::vector<ContextInfo> contexts;
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  Result<> outcome;
};

void *wait_for_contexts(void *p) {
  std::unique_ptr<std::shared_ptr<Waiting>> w(static_cast<std::shared_ptr<Waiting> *>(p));
  Result<> outcome;
  for (const ContextInfo &c : (*w)->contexts) {
    Current current(c.handle);
    CUresult e = current.status() == CUDA_SUCCESS ? driver().cuCtxSynchronize() : current.status();
    if (e != CUDA_SUCCESS && outcome)
      outcome = fail_with_hint(
          fmt::format("a CUDA context of device {} has failed with {}", c.device, error_name(e)),
          "the program has lost it already");
  }
  std::lock_guard lock((*w)->mutex);
  (*w)->over = true;
  (*w)->outcome = std::move(outcome);
  (*w)->changed.notify_all();
  return nullptr;
}

Result<std::shared_ptr<Waiting>> start_waiting() {
  auto waiting = std::make_shared<Waiting>();
  waiting->contexts = live_contexts();
  auto *handed = new std::shared_ptr<Waiting>(waiting);
  pthread_t thread;
  int error = ::pthread_create(&thread, nullptr, wait_for_contexts, handed);
  if (error != 0) {
    delete handed;
    return fail("cannot start a thread: {}", std::strerror(error));
  }
  ::pthread_detach(thread);
  return waiting;
}

// Opens the gate until no function of the program runs on a thread of the driver, or for a moment:
// who comes in brings new work, too.
void let_host_calls_end(Clock::time_point deadline) {
  Clock::time_point end = std::min(deadline, Clock::now() + kMoment);
  close_gate_behind_host_calls(true);
  gate().open();
  while (host_calls_running() > 0 && Clock::now() < end)
    std::this_thread::sleep_for(milliseconds(1));
  gate().close();
  close_gate_behind_host_calls(false);
}

// Waits for `done(until)` in steps; false at the deadline.
template <class Done>
bool wait_in_steps(Clock::time_point deadline, const Done &done) {
  for (;;) {
    if (done(std::min(deadline, Clock::now() + kPatience))) return true;
    if (Clock::now() >= deadline) return false;
    if (host_calls_running() > 0) let_host_calls_end(deadline);
  }
}

Result<> wait_for_captures(Clock::time_point deadline) {
  Clock::time_point end = std::min(deadline, Clock::now() + kCapturePatience);
  while (capturing()) {
    if (Clock::now() >= end)
      return fail_with_hint("a stream is being captured into a graph",
                            "try again when the program has ended the capture");
    gate().open();
    std::this_thread::sleep_for(milliseconds(1));
    gate().close();
    gate().wait_empty(end);
  }
  return {};
}

Result<> devices_rest(Clock::time_point deadline, bool &idle) {
  CKPT_TRY(std::shared_ptr<Waiting> waiting, start_waiting());
  std::unique_lock lock(waiting->mutex);
  auto over = [&] { return waiting->over; };
  while (!waiting->changed.wait_until(lock, std::min(deadline, Clock::now() + kPatience), over)) {
    if (Clock::now() >= deadline)
      return fail_with_hint("kernels are still running", "wait longer with --timeout");
    if (host_calls_running() == 0) continue;
    lock.unlock();
    let_host_calls_end(deadline);
    return {};  // calls have come in: begin again
  }
  idle = true;
  return waiting->outcome;
}

}  // namespace

Result<> come_to_rest(Clock::time_point deadline) {
  gate().close();
  for (bool idle = false; !idle;) {
    auto empty = [](Clock::time_point until) { return gate().wait_empty(until); };
    if (!wait_in_steps(deadline, empty))
      return fail_with_hint("a CUDA call did not return in time",
                            "it waits for a kernel, say; try again, or a longer --timeout");
    CKPT_CHECK(wait_for_captures(deadline));
    CKPT_CHECK(devices_rest(deadline, idle));
  }
  return {};
}

}  // namespace ckpt::cuda
