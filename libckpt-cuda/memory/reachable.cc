// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/reachable.h"

#include <algorithm>
#include <iterator>

#include "common/base/log.h"
#include "libckpt-cuda/memory/addresses.h"
#include "libckpt-cuda/memory/contexts.h"
#include "libckpt-cuda/memory/ipc_memory.h"
#include "libckpt-cuda/memory/memory.h"
#include "libckpt-cuda/memory/paired_memory.h"
#include "libckpt-cuda/memory/pools.h"

namespace ckpt::cuda {

Reachable::~Reachable() {
  for (const View &v : views_) {
    if (CUresult e = driver().cuMemUnmap(v.base, v.bytes); e == CUDA_SUCCESS)
      addresses().give(v.base, v.taken);
    else
      log::warn("{} bytes of device addresses stay in use: cuMemUnmap fails with {}", v.bytes,
                error_name(e));
  }
  for (auto &[device, context] : retained_) driver().cuDevicePrimaryCtxRelease_v2(device);
}

Result<CUcontext> Reachable::context_on(CUdevice device) {
  for (const ContextInfo &c : live_contexts())
    if (c.device == device) return c.handle;
  CUcontext &context = retained_[device];
  if (context != nullptr) return context;
  CUresult e = driver().cuDevicePrimaryCtxRetain(&context, device);
  if (e == CUDA_SUCCESS) return context;
  retained_.erase(device);
  return fail("cannot make a context to copy memory of device {}: {}", device, error_name(e));
}

Result<> Reachable::add(const ProgramMemory::Whole &whole, std::vector<Contents> &all) {
  CKPT_TRY(CUcontext context, context_on(whole.device));
  View v{0, whole.bytes, rounded_up(whole.bytes, addresses().granularity(whole.device))};
  CKPT_CHECK(as_result(addresses().take(whole.device, v.taken, v.base),
                       "reserve addresses to copy the program's memory"));
  CUresult e = driver().cuMemMap(v.base, v.bytes, 0, whole.physical, 0);
  if (e != CUDA_SUCCESS) addresses().give(v.base, v.taken);
  CKPT_CHECK(as_result(e, "map the program's memory to copy it"));
  views_.push_back(v);
  CUmemAccessDesc access = access_from(whole.device, true);
  CKPT_CHECK(as_result(give_access(v.base, v.bytes, {&access, 1}), "access the program's memory"));
  all.push_back({whole.region, v.base, v.bytes, context, whole.device, whole.handle});
  return {};
}

Result<std::vector<Contents>> Reachable::contents() {
  std::vector<Contents> all = memory().contents();
  std::ranges::move(paired_memory().contents(), std::back_inserter(all));
  std::ranges::move(ipc_memory().contents(), std::back_inserter(all));
  for (Contents &c : pools().contents()) {
    CKPT_TRY(c.context, context_on(c.device));
    all.push_back(std::move(c));
  }
  for (const ProgramMemory::Whole &w : program_memory().wholes()) CKPT_CHECK(add(w, all));
  return all;
}

}  // namespace ckpt::cuda
