// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/leave.h"

#include <unistd.h>

#include <array>

#include "libckpt-cuda/driver.h"
#include "libckpt-cuda/uuid.h"

namespace ckpt::cuda {
namespace {

// Nothing of the program is inside and nothing runs, so the lock is a matter of moments.
constexpr unsigned kLockMilliseconds = 30'000;

Result<CUprocessState> state() {
  CUprocessState s{};
  CKPT_CHECK(did(driver().cuCheckpointProcessGetState(::getpid(), &s),
                 "ask the driver for the state of this process"));
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
  return did(driver().cuCheckpointProcessRestore(::getpid(), pairs.empty() ? nullptr : &args),
             "have the driver take this process back");
}

}  // namespace

std::string why_not_leave() {
  const Driver &d = driver();
  if (d.cuCheckpointProcessCheckpoint != nullptr && d.cuCheckpointProcessUnlock != nullptr &&
      d.cuCheckpointProcessGetState != nullptr)
    return {};
  return fmt::format(
      "the CUDA driver {} has no cuCheckpointProcessCheckpoint: a driver of 570 or newer is needed",
      d.path);
}

Result<> leave() {
  CUcheckpointLockArgs lock{};
  lock.timeoutMs = kLockMilliseconds;
  CKPT_CHECK(did(driver().cuCheckpointProcessLock(::getpid(), &lock), "lock the driver"));
  CUcheckpointCheckpointArgs args{};
  return did(driver().cuCheckpointProcessCheckpoint(::getpid(), &args),
             "have the driver leave this process");
}

Result<> come_back(std::span<const agent::DevicePair> map) {
  CKPT_TRY(CUprocessState now, state());
  if (now == CU_PROCESS_STATE_FAILED)
    return fail("the driver's checkpoint has failed, and its state is lost");
  if (now == CU_PROCESS_STATE_CHECKPOINTED) {
    CKPT_CHECK(restore(map));
    CKPT_TRY(now, state());
  }
  if (now != CU_PROCESS_STATE_LOCKED) return {};
  CUcheckpointUnlockArgs args{};
  return did(driver().cuCheckpointProcessUnlock(::getpid(), &args), "unlock the driver");
}

std::vector<DeviceFacts> visible_devices() {
  std::vector<DeviceFacts> all;
  int count = 0;
  driver().cuDeviceGetCount(&count);
  for (int i = 0; i < count; i++) {
    CUdevice d = 0;
    std::array<char, 256> name{};
    CUuuid uuid{};
    size_t bytes = 0;
    int major = 0, minor = 0;
    if (driver().cuDeviceGet(&d, i) != CUDA_SUCCESS) continue;
    driver().cuDeviceGetName(name.data(), name.size() - 1, d);
    driver().cuDeviceGetUuid_v2(&uuid, d);
    driver().cuDeviceTotalMem_v2(&bytes, d);
    driver().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d);
    driver().cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d);
    all.push_back({i, name.data(), uuid_text(uuid), bytes, 10 * major + minor});
  }
  return all;
}

}  // namespace ckpt::cuda
