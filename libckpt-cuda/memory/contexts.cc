// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/contexts.h"

#include <algorithm>
#include <compare>
#include <map>
#include <mutex>
#include <set>

#include "driver-checkpoint/forked_child.h"
#include "libckpt-cuda/entry/calls.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/lifecycle/manager_requests.h"
#include "libckpt-cuda/memory/memory.h"
#include "libckpt-cuda/memory/paired_memory.h"
#include "libckpt-cuda/memory/pools.h"

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

void insert(const ContextInfo &context) {
  std::lock_guard lock(table().mutex);
  ContextInfo &known = table().contexts[context.handle];
  if (context.primary) table().primaries.insert(context.handle);
  known = context;
  known.primary = table().primaries.contains(context.handle);
}

void erase(CUcontext context) {
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

// The results of the driver's calls pass through the following functions.

// Libraries retain a primary context again and again, which opens nothing.
template <class Fn>
CUresult created(Fn create, const CUcontext *context, CUdevice device, bool primary) {
  std::optional<OpensDevices> opens;
  if (!primary || !primary_context(device)) opens.emplace();
  CUresult e = with_memory(create);
  if (e != CUDA_SUCCESS) return e;
  insert({*context, device, primary});
  if (paired_memory().any()) paired_memory().reach_from(device);
  report_context_made();
  return e;
}

CUresult destroyed(CUresult e, CUcontext context) {
  if (e != CUDA_SUCCESS) return e;
  memory().release_context(context);
  paired_memory().release_context(context);
  pools().context_destroyed(context);
  erase(context);
  report_context_destroyed(context);
  return e;
}

// A reset destroys the primary context, and so does the last release.
CUresult primary_released(CUresult e, CUdevice device, bool reset) {
  if (e != CUDA_SUCCESS) return e;
  unsigned flags = 0;
  int active = 0;
  driver().cuDevicePrimaryCtxGetState(device, &flags, &active);
  std::optional<ContextInfo> context = primary_context(device);
  if (context && (reset || active == 0)) destroyed(CUDA_SUCCESS, context->handle);
  return e;
}

CUresult peer_access_changed(CUresult e, CUcontext owner, bool allowed) {
  ContextInfo accessor;
  if (e != CUDA_SUCCESS || current_context(accessor) != CUDA_SUCCESS) return e;
  {
    std::lock_guard lock(table().mutex);
    if (allowed)
      table().access.insert({accessor.handle, owner});
    else
      table().access.erase({accessor.handle, owner});
  }
  return memory().set_access(owner, accessor.device, allowed);
}

}  // namespace

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
  if (e == CUDA_SUCCESS) insert(out);
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

CUresult entry_cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device) {
  PASS_OR_RETURN(pass);
  return created([&] { return REAL(cuCtxCreate_v2)(out, flags, device); }, out, device, false);
}

CUresult entry_cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *params, int n,
                              unsigned int flags, CUdevice device) {
  PASS_OR_RETURN(pass);
  return created([&] { return REAL(cuCtxCreate_v3)(out, params, n, flags, device); }, out, device,
                 false);
}

CUresult entry_cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags,
                              CUdevice device) {
  PASS_OR_RETURN(pass);
  return created([&] { return REAL(cuCtxCreate_v4)(out, params, flags, device); }, out, device,
                 false);
}

CUresult entry_cuCtxDestroy_v2(CUcontext context) {
  PASS_OR_RETURN(pass);
  return destroyed(REAL(cuCtxDestroy_v2)(context), context);
}

CUresult entry_cuCtxDestroy(CUcontext context) {
  PASS_OR_RETURN(pass);
  return destroyed(REAL(cuCtxDestroy)(context), context);
}

CUresult entry_cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
  PASS_OR_RETURN(pass);
  return created([&] { return REAL(cuDevicePrimaryCtxRetain)(out, device); }, out, device, true);
}

CUresult entry_cuDevicePrimaryCtxRelease(CUdevice device) {
  PASS_OR_RETURN(pass);
  return primary_released(REAL(cuDevicePrimaryCtxRelease)(device), device, false);
}

CUresult entry_cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  PASS_OR_RETURN(pass);
  return primary_released(REAL(cuDevicePrimaryCtxRelease_v2)(device), device, false);
}

CUresult entry_cuDevicePrimaryCtxReset(CUdevice device) {
  PASS_OR_RETURN(pass);
  return primary_released(REAL(cuDevicePrimaryCtxReset)(device), device, true);
}

CUresult entry_cuDevicePrimaryCtxReset_v2(CUdevice device) {
  PASS_OR_RETURN(pass);
  return primary_released(REAL(cuDevicePrimaryCtxReset_v2)(device), device, true);
}

CUresult entry_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  PASS_OR_RETURN(pass);
  return peer_access_changed(REAL(cuCtxEnablePeerAccess)(peer, flags), peer, true);
}

CUresult entry_cuCtxDisablePeerAccess(CUcontext peer) {
  PASS_OR_RETURN(pass);
  return peer_access_changed(REAL(cuCtxDisablePeerAccess)(peer), peer, false);
}

}  // namespace ckpt::cuda
