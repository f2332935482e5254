// SPDX-License-Identifier: Apache-2.0
//
// Every entry of the driver API exists: what driver/ does not define is a weak symbol here, which
// names itself and returns CUDA_ERROR_NOT_SUPPORTED. A strong definition anywhere takes its place.
#include <mutex>
#include <set>
#include <string>

#include "softcuda/driver/process.h"

namespace {

CUresult refuse(const char *name) {
  static std::mutex mutex;
  static std::set<std::string> *const kReported = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (kReported->insert(name).second)
    ckpt::softcuda::driver::warn(std::string(name) + " is not supported by the software device");
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

// The types do not matter: nothing of the arguments is looked at.
#define CU_ENTRY(name, version, symbol, per_thread)                                                \
  extern "C" __attribute__((used)) CUresult softcuda_refuse_##symbol() { return refuse(#symbol); } \
  asm(".weak " #symbol "\n.type " #symbol ", @function\n.set " #symbol                             \
      ", softcuda_refuse_" #symbol);
#include "common/api/cuda_entries.api"
#undef CU_ENTRY
