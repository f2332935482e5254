// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/driver_checkpoint.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <vector>

#include "driver-checkpoint/checkpoint_entries.h"
#include "driver-checkpoint/holes.h"
#include "driver-checkpoint/initialised_devices.h"
#include "driver-checkpoint/late_call.h"
#include "driver-checkpoint/uuid.h"

namespace ckpt::cuda {
namespace {

// No call is inside the driver and the devices are idle, so Lock has nothing to wait for.
constexpr unsigned kLockMilliseconds = 30'000;

Holes &holes() {
  static Holes *const kHoles = new Holes;
  return *kHoles;
}

// A Restore that ran out of memory has been seen to leave the process unrestorable: every further
// one fails with CUDA_ERROR_OPERATING_SYSTEM (NVIDIA/cuda-checkpoint#44).
std::atomic<bool> ran_out{false};
std::atomic<bool> lost{false};

Result<> as_result(CUresult e, const char *what) {
  if (e == CUDA_SUCCESS) return {};
  const char *name = nullptr;
  auto name_of = checkpoint_entries().cuGetErrorName;
  if (!name_of || name_of(e, &name) != CUDA_SUCCESS) name = "unknown error";
  return fail("cannot {}: {}", what, name);
}

Result<> checked(std::optional<CUresult> result, const char *what) {
  if (result) return as_result(*result, what);
  return fail_with_hint(
      fmt::format("cannot {}: the CUDA driver has not returned within {} s", what,
                  driver_deadline()),
      "this version of the driver may hang; CKPT_CUDA_DRIVER_TIMEOUT=SECONDS waits longer");
}

Result<CUprocessState> state() {
  auto s = std::make_shared<CUprocessState>();
  CKPT_CHECK(checked(call_in_time([s] {
                       return checkpoint_entries().cuCheckpointProcessGetState(::getpid(), s.get());
                     }),
                     "get the driver's checkpoint state of this process"));
  return *s;
}

CUresult unlock_driver() {
  CUcheckpointUnlockArgs args{};
  return checkpoint_entries().cuCheckpointProcessUnlock(::getpid(), &args);
}

CUresult lock_driver() {
  CUcheckpointLockArgs args{};
  args.timeoutMs = kLockMilliseconds;
  return checkpoint_entries().cuCheckpointProcessLock(::getpid(), &args);
}

CUresult checkpoint_driver() {
  CUcheckpointCheckpointArgs args{};
  return checkpoint_entries().cuCheckpointProcessCheckpoint(::getpid(), &args);
}

CUresult restore_driver(std::vector<CUcheckpointGpuPair> &pairs) {
  CUcheckpointRestoreArgs args{};
  args.gpuPairs = pairs.data();
  args.gpuPairsCount = static_cast<unsigned>(pairs.size());
  return checkpoint_entries().cuCheckpointProcessRestore(::getpid(),
                                                         pairs.empty() ? nullptr : &args);
}

Result<std::vector<CUcheckpointGpuPair>> as_pairs(const DeviceMap &map) {
  std::vector<CUcheckpointGpuPair> pairs;
  for (const auto &[from, to] : map) {
    CKPT_TRY(CUuuid before, parse_uuid(from));
    CKPT_TRY(CUuuid now, parse_uuid(to));
    pairs.push_back({before, now});
  }
  return pairs;
}

Failure lost_for_good(const std::string &why) {
  lost = true;
  return fail_with_hint(why, "end the program, and restore it from an image");
}

// No process keeps the devices initialised. This process's state is untouched then.
bool found_cold(const std::optional<CUresult> &e) {
  return e && (*e == CUDA_ERROR_OPERATING_SYSTEM || *e == CUDA_ERROR_NOT_INITIALIZED);
}

// After an out-of-memory, a second call tells whether that was final: it costs nothing then.
Result<> restore(const DeviceMap &map) {
  CKPT_TRY(std::vector<CUcheckpointGpuPair> pairs, as_pairs(map));
  auto once = [&] { return call_in_time([pairs]() mutable { return restore_driver(pairs); }); };
  std::optional<CUresult> e = once();
  Result<UniqueFd> initialised = UniqueFd();
  if (found_cold(e) && !ran_out) {
    initialised = keep_devices_initialised();
    if (initialised) e = once();
  }
  if (e == CUDA_ERROR_OUT_OF_MEMORY) {
    ran_out = true;
    e = once();
  }
  if (!e)
    return lost_for_good(fmt::format(
        "the CUDA driver has not restored this process within {} s, and its state is lost",
        driver_deadline()));
  if (ran_out && e == CUDA_ERROR_OPERATING_SYSTEM)
    return lost_for_good(
        "the devices had too little free memory for the CUDA driver's state of this process, and "
        "this version of the driver cannot restore it after that");
  Result<> restored = as_result(*e, "restore the driver's state of this process");
  if (restored) ran_out = false;
  if (found_cold(e))
    restored.error().hint =
        "enable persistence mode (nvidia-smi -pm 1), or keep another CUDA program running: the "
        "driver restores a process only on a device that is initialised";
  return restored;
}

}  // namespace

std::string no_driver_checkpoint() {
  const CheckpointEntries &d = checkpoint_entries();
  if (d.cuCheckpointProcessCheckpoint != nullptr && d.cuCheckpointProcessUnlock != nullptr &&
      d.cuCheckpointProcessGetState != nullptr)
    return {};
  return fmt::format(
      "the CUDA driver {} has no cuCheckpointProcessCheckpoint: install driver 570 or newer",
      d.path);
}

// A Lock that returns after its deadline would block the program forever.
Result<> driver_lock() {
  return checked(call_in_time(lock_driver, [] { unlock_driver(); }), "lock the driver");
}

Result<> driver_checkpoint() {
  holes().note();
  CKPT_CHECK(
      checked(call_in_time(checkpoint_driver), "checkpoint the driver's state of this process"));
  return holes().fill();
}

Result<> driver_restore(const DeviceMap &map) {
  CKPT_TRY(CUprocessState now, state());
  if (now == CU_PROCESS_STATE_FAILED)
    return lost_for_good("the driver's checkpoint has failed, and its state is lost");
  if (now == CU_PROCESS_STATE_CHECKPOINTED) {
    CKPT_CHECK(holes().fill());
    CKPT_CHECK(restore(map));
    holes().release();
    CKPT_TRY(now, state());
  }
  if (now != CU_PROCESS_STATE_LOCKED) return {};
  return checked(call_in_time(unlock_driver), "unlock the driver");
}

bool driver_is_checkpointed() {
  Result<CUprocessState> now = state();
  return now && *now == CU_PROCESS_STATE_CHECKPOINTED;
}

bool driver_lost() { return lost; }

}  // namespace ckpt::cuda
