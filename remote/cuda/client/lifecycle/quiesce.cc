// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/lifecycle/quiesce.h"

#include <optional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/timed_call.h"
#include "remote/cuda/client/link/gate.h"
#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {
namespace {

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

Failure still_busy() {
  return fail_with_hint("kernels are still running on the device",
                        "try again with a longer --timeout");
}

}  // namespace

Result<> quiesce_devices(Clock::time_point deadline) {
  // A call that waits for the device. One that was late is waited for first.
  static std::optional<TimedCall<Result<>>> wait;
  if (!gate().wait_empty(deadline))
    return fail_with_hint("a CUDA call did not return in time",
                          "it may wait for a kernel; try again with a longer --timeout");
  if (wait && !wait->wait_until(deadline)) return still_busy();
  wait.reset();
  CKPT_TRY(TimedCall<Result<>> begun, TimedCall<Result<>>::begin(wait_for_all_contexts));
  const Result<> *result = wait.emplace(std::move(begun)).wait_until(deadline);
  if (!result) return still_busy();
  Result<> idle = *result;
  wait.reset();
  CKPT_CHECK(idle);
  // The server has the answers of all host functions; their threads here forget them.
  while (link().expects_host_calls()) {
    if (Clock::now() >= deadline) return fail("a host function of its streams has not returned");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

}  // namespace ckpt::remote::cuda
