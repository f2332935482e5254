// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/contexts.h"

#include <algorithm>
#include <compare>
#include <map>
#include <mutex>
#include <set>

namespace ckpt::cuda {
namespace {

// Never destroyed: the CUDA runtime calls the driver after main() has returned.
struct ContextTable {
  struct Access {
    CUcontext accessor, owner;  // the first may use the memory of the second
    // clang-tidy 14 reports defaulted comparisons by mistake.
    // NOLINTNEXTLINE(modernize-use-nullptr)
    auto operator<=>(const Access &) const = default;
  };
  std::mutex mutex;
  std::map<CUcontext, ContextInfo> contexts;
  std::set<CUcontext> primaries;  // keep their handles after a reset
  std::set<Access> access;
};
ContextTable &table() {
  static ContextTable *const kTable = new ContextTable;
  return *kTable;
}

}  // namespace

void note_context(const ContextInfo &context) {
  std::lock_guard lock(table().mutex);
  ContextInfo &known = table().contexts[context.handle];
  if (context.primary) table().primaries.insert(context.handle);
  known = context;
  known.primary = table().primaries.contains(context.handle);
}

void forget_context(CUcontext context) {
  std::lock_guard lock(table().mutex);
  table().contexts.erase(context);
  std::erase_if(table().access,
                [&](auto &a) { return a.accessor == context || a.owner == context; });
}

std::optional<ContextInfo> primary_context(CUdevice device) {
  for (const ContextInfo &c : live_contexts())
    if (c.primary && c.device == device) return c;
  return {};
}

void note_access(CUcontext accessor, CUcontext owner, bool allowed) {
  std::lock_guard lock(table().mutex);
  if (allowed)
    table().access.insert({accessor, owner});
  else
    table().access.erase({accessor, owner});
}

CUresult current_context(ContextInfo &out) {
  CUresult e = driver().cuCtxGetCurrent(&out.handle);
  if (e != CUDA_SUCCESS) return e;
  if (out.handle == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  {
    std::lock_guard lock(table().mutex);
    auto known = table().contexts.find(out.handle);
    if (known != table().contexts.end()) {
      out = known->second;
      return CUDA_SUCCESS;
    }
  }
  e = driver().cuCtxGetDevice(&out.device);
  if (e == CUDA_SUCCESS) note_context(out);
  return e;
}

std::vector<ContextInfo> live_contexts() {
  std::lock_guard lock(table().mutex);
  std::vector<ContextInfo> all;
  for (auto &[handle, info] : table().contexts) all.push_back(info);
  return all;
}

std::vector<CUdevice> devices_with_access(const ContextInfo &context) {
  std::vector<CUdevice> devices{context.device};
  std::lock_guard lock(table().mutex);
  for (auto &[accessor, owner] : table().access) {
    auto it = table().contexts.find(accessor);
    if (owner != context.handle || it == table().contexts.end()) continue;
    if (std::ranges::find(devices, it->second.device) == devices.end())
      devices.push_back(it->second.device);
  }
  return devices;
}

bool reaches(CUdevice device, CUdevice owner) {
  int can = 0;
  return driver().cuDeviceCanAccessPeer(&can, device, owner) == CUDA_SUCCESS && can != 0;
}

std::vector<CUdevice> devices_that_reach(CUdevice owner) {
  std::vector<CUdevice> devices{owner};
  for (const ContextInfo &c : live_contexts())
    if (std::ranges::find(devices, c.device) == devices.end() && reaches(c.device, owner))
      devices.push_back(c.device);
  return devices;
}

}  // namespace ckpt::cuda
