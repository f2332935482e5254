// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/lifecycle/quiesce.h"

#include <memory>

#include "remote/cuda/client/link/gate.h"
#include "remote/cuda/client/link/own_thread.h"
#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {
namespace {

using Clock = std::chrono::steady_clock;

Result<> wait_for_context(u64 context) {
  Bytes reply;
  CUresult e = link().ask(number(Op::Idle), context, {}, &reply);
  if (note_error(e) != CUDA_SUCCESS) return device_failure("the device reports", e);
  i32 late = 0;
  if (e = read_reply(reply, late); e != CUDA_SUCCESS)
    return device_failure("its server is lost", e);
  if (late != CUDA_SUCCESS)
    return fail_with_hint(
        fmt::format("CUDA error {} of an earlier call is not reported to the program yet", late),
        "try again after its next synchronising call");
  return {};
}

Result<> wait_for_all_contexts() {
  CKPT_CHECK(wait_for_context(0));
  for (const Ledger::Object &c : ledger().objects(Kind::Context))
    CKPT_CHECK(wait_for_context(c.number));
  return {};
}

// A call that waits for the device cannot be cancelled, so a thread of its own makes it. After the
// deadline that thread is left behind.
struct Wait {
  std::mutex mutex;
  std::condition_variable ended_condition;
  bool ended = false;
  Result<> result;

  bool until(Clock::time_point deadline) {
    std::unique_lock lock(mutex);
    return ended_condition.wait_until(lock, deadline, [&] { return ended; });
  }
  void end(Result<> r) {
    std::lock_guard lock(mutex);
    result = std::move(r);
    ended = true;
    ended_condition.notify_all();
  }
};

Failure still_busy() {
  return fail_with_hint("kernels are still running on the device",
                        "try again with a longer --timeout");
}

}  // namespace

Result<> quiesce_devices(Clock::time_point deadline) {
  static std::shared_ptr<Wait> left_behind;
  if (!gate().wait_empty(deadline))
    return fail_with_hint("a CUDA call did not return in time",
                          "it may wait for a kernel; try again with a longer --timeout");
  if (left_behind && !left_behind->until(deadline)) return still_busy();
  auto wait = std::make_shared<Wait>();
  start_own_thread([wait] { wait->end(wait_for_all_contexts()); });
  bool ended = wait->until(deadline);
  left_behind = ended ? nullptr : wait;
  if (!ended) return still_busy();
  CKPT_CHECK(wait->result);
  // The server has the answers of all host functions; their threads here forget them.
  while (link().expects_host_calls()) {
    if (Clock::now() >= deadline) return fail("a host function of its streams has not returned");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

}  // namespace ckpt::remote::cuda
