// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/driver_checkpoint.h"

#include <unistd.h>

#include <vector>

#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/uuid.h"

namespace ckpt::cuda {
namespace {

// No call is inside the driver and the devices are idle, so Lock has nothing to wait for.
constexpr unsigned kLockMilliseconds = 30'000;

Result<CUprocessState> state() {
  CUprocessState s{};
  CKPT_CHECK(as_result(driver().cuCheckpointProcessGetState(::getpid(), &s),
                       "get the driver's checkpoint state of this process"));
  return s;
}

Result<> restore(std::span<const agent::DevicePair> map) {
  std::vector<CUcheckpointGpuPair> pairs;
  for (const agent::DevicePair &p : map) {
    CKPT_TRY(CUuuid from, parse_uuid(p.from));
    CKPT_TRY(CUuuid to, parse_uuid(p.to));
    pairs.push_back({from, to});
  }
  CUcheckpointRestoreArgs args{};
  args.gpuPairs = pairs.data();
  args.gpuPairsCount = static_cast<unsigned>(pairs.size());
  return as_result(driver().cuCheckpointProcessRestore(::getpid(), pairs.empty() ? nullptr : &args),
                   "restore the driver's state of this process");
}

}  // namespace

std::string no_driver_checkpoint() {
  const Driver &d = driver();
  if (d.cuCheckpointProcessCheckpoint != nullptr && d.cuCheckpointProcessUnlock != nullptr &&
      d.cuCheckpointProcessGetState != nullptr)
    return {};
  return fmt::format(
      "the CUDA driver {} has no cuCheckpointProcessCheckpoint: install driver 570 or newer",
      d.path);
}

Result<> driver_checkpoint() {
  CUcheckpointLockArgs lock{};
  lock.timeoutMs = kLockMilliseconds;
  CKPT_CHECK(as_result(driver().cuCheckpointProcessLock(::getpid(), &lock), "lock the driver"));
  CUcheckpointCheckpointArgs args{};
  return as_result(driver().cuCheckpointProcessCheckpoint(::getpid(), &args),
                   "checkpoint the driver's state of this process");
}

Result<> driver_restore(std::span<const agent::DevicePair> map) {
  CKPT_TRY(CUprocessState now, state());
  if (now == CU_PROCESS_STATE_FAILED)
    return fail("the driver's checkpoint has failed, and its state is lost");
  if (now == CU_PROCESS_STATE_CHECKPOINTED) {
    CKPT_CHECK(restore(map));
    CKPT_TRY(now, state());
  }
  if (now != CU_PROCESS_STATE_LOCKED) return {};
  CUcheckpointUnlockArgs args{};
  return as_result(driver().cuCheckpointProcessUnlock(::getpid(), &args), "unlock the driver");
}

}  // namespace ckpt::cuda
