// SPDX-License-Identifier: Apache-2.0
//
// cuInit, and cuGetProcAddress, which runtimes call for each entry that they use.
#include <atomic>
#include <cstdlib>
#include <optional>

#include "common/base/log.h"
#include "libckpt-cuda/devices/node_gpus.h"
#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/entry/jumps.h"
#include "libckpt-cuda/lifecycle/manager_requests.h"
#include "libckpt-cuda/lifecycle/participant.h"

namespace ckpt::cuda {
namespace {

constexpr int kKnownVersion = 13000;  // of cuda_entries.api
// Set by ckpt-run: a warning for each program that uses CUDA.
constexpr const char *kNoticeVariable = "CKPT_CUDA_NOTICE";

void log_notice() {
  const char *notice = std::getenv(kNoticeVariable);
  if (notice == nullptr) return;
  log::warn("{}", notice);
  ::unsetenv(kNoticeVariable);  // not again in programs that this one executes
}

// Starts the driver. The first successful start joins the session: a checkpoint that begins
// meanwhile waits, because the driver's descriptors would look like those of a program without
// ckpt.
CUresult start_driver(unsigned int flags) {
  static std::atomic<bool> joined{false};
  std::optional<CUresult> result;
  auto start = [&] {
    result = REAL(cuInit)(flags);
    return *result == CUDA_SUCCESS;
  };
  if (joined.exchange(true)) return REAL(cuInit)(flags);
  Result<> added = agent::start_participant(participant(), start);
  if (!result) start();
  joined = *result == CUDA_SUCCESS;
  if (!joined) return *result;
  load_nvml();  // now, because this thread may wait for the loader
  log_notice();
  if (!added)
    log::error(std::move(added.error()).in("this program's CUDA state cannot be checkpointed"));
  return *result;
}

// Whether the driver has a form of `name` that is newer than those in cuda_entries.api. Handing it
// out would bypass our wrapper; handing ours out would call a function with other parameters.
bool is_newer_form(const char *name, void *found, Id known, cuuint64_t flags) {
  void *known_form = nullptr;
  CUdriverProcAddressQueryResult ignored{};
  CUresult e = REAL(cuGetProcAddress_v2)(name, &known_form, kKnownVersion, flags, &ignored);
  bool newer = e == CUDA_SUCCESS && known_form != found;
  if (newer)
    log::warn(
        "the program cannot use {}: this ckpt knows its form of CUDA 13.0 only, and the "
        "driver's is newer",
        entry_info(known).symbol);
  return newer;
}

// What the program is given for `name`, where the driver found `real`. Null: nothing.
void *entry_for_program(const char *name, void *real, int version, cuuint64_t flags) {
  bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  Id id = find_entry(name, version, per_thread);
  if (id == Id::Count) {
    log::debug("the program cannot use {}: this ckpt knows CUDA 13.0 only", name);
    return nullptr;
  }
  void *ours = entry_info(id).ours;
  if (ours == nullptr) return real == real_entry(id) ? jump_to(id) : real;
  if (version > kKnownVersion && is_newer_form(name, real, id, flags)) return nullptr;
  return ours;
}

}  // namespace

CUresult entry_cuInit(unsigned int flags) {
  // Once for the process: a denied program stays denied.
  static const CUresult kAcquired = acquire_device();
  if (kAcquired != CUDA_SUCCESS) return kAcquired;
  CUresult e = start_driver(flags);
  report_started();
  return e;
}

CUresult entry_cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                   CUdriverProcAddressQueryResult *result) {
  CUresult e = REAL(cuGetProcAddress_v2)(name, function, version, flags, result);
  if (e != CUDA_SUCCESS || *function == nullptr) return e;
  *function = entry_for_program(name, *function, version, flags);
  if (*function != nullptr) return e;
  if (result != nullptr) *result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult entry_cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
  CUresult e = REAL(cuGetProcAddress)(name, function, version, flags);
  if (e != CUDA_SUCCESS || *function == nullptr) return e;
  *function = entry_for_program(name, *function, version, flags);
  return *function != nullptr ? e : CUDA_ERROR_NOT_FOUND;
}

}  // namespace ckpt::cuda
