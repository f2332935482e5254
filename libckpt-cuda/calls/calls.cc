// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/calls/calls.h"

#include <mutex>
#include <set>

#include "common/base/log.h"
#include "libckpt-cuda/memory/served.h"

namespace ckpt::cuda {
namespace {

// Never destroyed: the CUDA runtime calls the driver after main() has returned.
struct RefusedEntries {
  std::mutex mutex;
  std::set<Id> logged;
};
RefusedEntries &refused_entries() {
  static RefusedEntries *const kRefused = new RefusedEntries;
  return *kRefused;
}

}  // namespace

bool free_kept_memory() { return drop_kept_memory(); }

CUresult refuse(Id id, const char *reason) {
  if (g_refusal != CUDA_SUCCESS) return g_refusal;
  std::lock_guard lock(refused_entries().mutex);
  if (refused_entries().logged.insert(id).second)
    log::warn("{} is refused under ckpt-run: {}", entry_info(id).symbol, reason);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace ckpt::cuda
