// SPDX-License-Identifier: Apache-2.0
//
// cuInit, and cuGetProcAddress, which runtimes call for each entry that they use. A look-up that
// fails makes a runtime believe for good that the driver lacks the entry, so look-ups wait, too,
// while the driver is checkpointed.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>

#include "common/base/log.h"
#include "driver-checkpoint/forked_child.h"
#include "libckpt-cuda/calls/manager_requests.h"
#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/entry/held_calls.h"
#include "libckpt-cuda/entry/newer_entries.h"
#include "libckpt-cuda/lifecycle/participant.h"

namespace ckpt::cuda {
namespace {

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
    OpensDevices opens;
    result = REAL(cuInit)(flags);
    return *result == CUDA_SUCCESS;
  };
  if (joined.exchange(true)) {
    HOLD_OR_RETURN(held);
    return REAL(cuInit)(flags);
  }
  Result<> added = agent::start_participant(participant(), start);
  if (!result) start();
  joined = *result == CUDA_SUCCESS;
  if (!joined) return *result;
  log_notice();
  if (!added)
    log::error(std::move(added.error()).in("this program's CUDA state cannot be checkpointed"));
  return *result;
}

// What cuDriverGetVersion says; 0 if it fails.
int driver_version() {
  static const int kVersion = [] {
    int version = 0;
    if (driver().cuDriverGetVersion != nullptr) driver().cuDriverGetVersion(&version);
    return version;
  }();
  return kVersion;
}

// Whether the driver has a form of `name` that is newer than those in cuda/entries.api. Handing
// ours out would call a function with other parameters.
bool is_newer_form(const char *name, void *found, cuuint64_t flags) {
  void *known_form = nullptr;
  CUdriverProcAddressQueryResult ignored{};
  CUresult e = REAL(cuGetProcAddress_v2)(name, &known_form, kKnownVersion, flags, &ignored);
  return e == CUDA_SUCCESS && known_form != found;
}

// What the program is given for `name`, where the driver found `real`. Null: nothing. An older
// driver than the program was built for returns an older form.
void *entry_for_program(const char *name, void *real, int version, cuuint64_t flags) {
  bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  if (driver_version() != 0) version = std::min(version, driver_version());
  Id id = api::find_cuda_entry(name, version, per_thread);
  if (id == Id::Count) return newer_entry(name, real);
  const EntryInfo &info = entry_info(id);
  if (info.ours != nullptr && version > kKnownVersion && is_newer_form(name, real, flags))
    return newer_entry(name, real);
  return given_for(info, real);
}

}  // namespace

CUresult entry_cuInit(unsigned int flags) {
  if (g_refusal != CUDA_SUCCESS) return g_refusal;
  // Once for the process: a denied program stays denied.
  static const CUresult kAcquired = acquire_device();
  if (kAcquired != CUDA_SUCCESS) return kAcquired;
  CUresult e = start_driver(flags);
  report_started();
  return e;
}

CUresult entry_cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                   CUdriverProcAddressQueryResult *result) {
  HOLD_OR_RETURN(held);
  CUresult e = REAL(cuGetProcAddress_v2)(name, function, version, flags, result);
  if (e != CUDA_SUCCESS || *function == nullptr) return e;
  *function = entry_for_program(name, *function, version, flags);
  if (*function != nullptr) return e;
  if (result != nullptr) *result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult entry_cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
  HOLD_OR_RETURN(held);
  CUresult e = REAL(cuGetProcAddress)(name, function, version, flags);
  if (e != CUDA_SUCCESS || *function == nullptr) return e;
  *function = entry_for_program(name, *function, version, flags);
  return *function != nullptr ? e : CUDA_ERROR_NOT_FOUND;
}

}  // namespace ckpt::cuda
