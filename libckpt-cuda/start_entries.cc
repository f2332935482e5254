// SPDX-License-Identifier: Apache-2.0
//
// How a program comes to the driver: cuInit, and cuGetProcAddress, by which runtimes ask for every
// entry that they use.
#include <atomic>
#include <cstdlib>

#include "common/base/log.h"
#include "libckpt-cuda/calls.h"
#include "libckpt-cuda/driver.h"
#include "libckpt-cuda/participant.h"
#include "libckpt-cuda/tenancy.h"

namespace ckpt::cuda {
namespace {

constexpr int kKnownVersion = 13000;  // of cuda_entries.api
// What ckpt-run wants said to a program that uses CUDA.
constexpr const char *kNoticeVariable = "CKPT_CUDA_NOTICE";

void join_session() {
  static std::atomic<bool> joined{false};
  if (joined.exchange(true)) return;
  if (const char *notice = std::getenv(kNoticeVariable)) {
    log::warn("{}", notice);
    ::unsetenv(kNoticeVariable);  // programs that this one executes need not hear it again
  }
  if (Result<> r = agent::add_participant(participant()); !r)
    log::error(std::move(r.error()).in("this program's CUDA state cannot be checkpointed"));
}

// A form of a wrapped entry that is newer than this library would go past it.
bool newer_form(const char *name, void *given, Id known, cuuint64_t flags) {
  void *ours_time = nullptr;
  CUdriverProcAddressQueryResult ignored{};
  CUresult e = REAL(cuGetProcAddress_v2)(name, &ours_time, kKnownVersion, flags, &ignored);
  bool newer = e == CUDA_SUCCESS && ours_time != given;
  if (newer)
    log::warn("{} is only known in the form of CUDA 13.0: the driver's newer one is not given out",
              entry_info(known).symbol);
  return newer;
}

// What the program is given for `name`, where the driver has found `real`. Null: nothing.
void *given_for(const char *name, void *real, int version, cuuint64_t flags) {
  bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  Id id = find_entry(name, version, per_thread);
  if (id == Id::Count) {
    log::debug("{} of the driver is newer than this ckpt, and is not given out", name);
    return nullptr;
  }
  void *ours = entry_info(id).ours;
  if (ours == nullptr) return real;
  if (version > kKnownVersion && newer_form(name, real, id, flags)) return nullptr;
  return ours;
}

}  // namespace

// The place is taken once, for good or not.
CUresult entry_cuInit(unsigned int flags) {
  static const CUresult kPlace = take_place();
  if (kPlace != CUDA_SUCCESS) return kPlace;
  CUresult e = REAL(cuInit)(flags);
  if (e == CUDA_SUCCESS) join_session();
  place_taken();
  return e;
}

CUresult entry_cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                   CUdriverProcAddressQueryResult *result) {
  CUresult e = REAL(cuGetProcAddress_v2)(name, function, version, flags, result);
  if (e != CUDA_SUCCESS || *function == nullptr) return e;
  *function = given_for(name, *function, version, flags);
  if (*function != nullptr) return e;
  if (result != nullptr) *result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult entry_cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
  CUresult e = REAL(cuGetProcAddress)(name, function, version, flags);
  if (e != CUDA_SUCCESS || *function == nullptr) return e;
  *function = given_for(name, *function, version, flags);
  return *function != nullptr ? e : CUDA_ERROR_NOT_FOUND;
}

}  // namespace ckpt::cuda
