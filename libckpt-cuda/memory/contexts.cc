// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/contexts.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "libckpt-cuda/entry/calls.h"
#include "libckpt-cuda/lifecycle/manager_requests.h"
#include "libckpt-cuda/memory/memory.h"

namespace ckpt::cuda {
namespace {

// Never destroyed: the runtime calls us after main().
struct Books {
  std::mutex mutex;
  std::map<CUcontext, ContextInfo> contexts;
  std::set<std::pair<CUcontext, CUcontext>> peers;  // who, whose
};
Books &books() {
  static Books *const kBooks = new Books;
  return *kBooks;
}

CUresult noted(CUresult e, const CUcontext *context, CUdevice device, bool primary) {
  if (e != CUDA_SUCCESS) return e;
  note_context({*context, device, primary});
  tell_context_made();
  return e;
}

// What was in a context that is gone goes, too.
void gone(CUcontext context) {
  memory().release_context(context);
  forget_context(context);
  tell_freed(context);
}

// Does the last release of a primary context, or a reset, end it?
CUresult after_primary(CUresult e, CUdevice device, bool reset) {
  if (e != CUDA_SUCCESS) return e;
  unsigned flags = 0;
  int active = 0;
  driver().cuDevicePrimaryCtxGetState(device, &flags, &active);
  std::optional<ContextInfo> context = primary_context(device);
  if (context && (reset || active == 0)) gone(context->handle);
  return e;
}

CUresult peer_access(CUresult e, CUcontext whose, bool may) {
  ContextInfo who;
  if (e != CUDA_SUCCESS || current_context(who) != CUDA_SUCCESS) return e;
  note_peer(who.handle, whose, may);
  return memory().set_access(whose, who.device, may);
}

}  // namespace

CUresult current_context(ContextInfo &out) {
  CUresult e = driver().cuCtxGetCurrent(&out.handle);
  if (e != CUDA_SUCCESS) return e;
  if (out.handle == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  {
    std::lock_guard lock(books().mutex);
    auto known = books().contexts.find(out.handle);
    if (known != books().contexts.end()) return out = known->second, CUDA_SUCCESS;
  }
  e = driver().cuCtxGetDevice(&out.device);
  if (e == CUDA_SUCCESS) note_context(out);
  return e;
}

void note_context(const ContextInfo &context) {
  std::lock_guard lock(books().mutex);
  ContextInfo &known = books().contexts[context.handle];
  bool primary = known.primary || context.primary;
  known = context;
  known.primary = primary;
}

void forget_context(CUcontext context) {
  std::lock_guard lock(books().mutex);
  books().contexts.erase(context);
  std::erase_if(books().peers, [&](auto &p) { return p.first == context || p.second == context; });
}

std::vector<ContextInfo> live_contexts() {
  std::lock_guard lock(books().mutex);
  std::vector<ContextInfo> all;
  for (auto &[handle, info] : books().contexts) all.push_back(info);
  return all;
}

std::optional<ContextInfo> primary_context(CUdevice device) {
  for (const ContextInfo &c : live_contexts())
    if (c.primary && c.device == device) return c;
  return {};
}

void note_peer(CUcontext who, CUcontext whose, bool may) {
  std::lock_guard lock(books().mutex);
  if (may)
    books().peers.insert({who, whose});
  else
    books().peers.erase({who, whose});
}

std::vector<CUdevice> devices_that_reach(const ContextInfo &context) {
  std::vector<CUdevice> devices{context.device};
  std::lock_guard lock(books().mutex);
  for (auto &[who, whose] : books().peers) {
    auto it = books().contexts.find(who);
    if (whose != context.handle || it == books().contexts.end()) continue;
    if (std::ranges::find(devices, it->second.device) == devices.end())
      devices.push_back(it->second.device);
  }
  return devices;
}

CUresult entry_cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device) {
  PASS_OR_RETURN(pass);
  return noted(REAL(cuCtxCreate_v2)(out, flags, device), out, device, false);
}

CUresult entry_cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *params, int n,
                              unsigned int flags, CUdevice device) {
  PASS_OR_RETURN(pass);
  return noted(REAL(cuCtxCreate_v3)(out, params, n, flags, device), out, device, false);
}

CUresult entry_cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags,
                              CUdevice device) {
  PASS_OR_RETURN(pass);
  return noted(REAL(cuCtxCreate_v4)(out, params, flags, device), out, device, false);
}

CUresult entry_cuCtxDestroy_v2(CUcontext context) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuCtxDestroy_v2)(context);
  if (e == CUDA_SUCCESS) gone(context);
  return e;
}

CUresult entry_cuCtxDestroy(CUcontext context) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuCtxDestroy)(context);
  if (e == CUDA_SUCCESS) gone(context);
  return e;
}

CUresult entry_cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
  PASS_OR_RETURN(pass);
  return noted(REAL(cuDevicePrimaryCtxRetain)(out, device), out, device, true);
}

CUresult entry_cuDevicePrimaryCtxRelease(CUdevice device) {
  PASS_OR_RETURN(pass);
  return after_primary(REAL(cuDevicePrimaryCtxRelease)(device), device, false);
}

CUresult entry_cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  PASS_OR_RETURN(pass);
  return after_primary(REAL(cuDevicePrimaryCtxRelease_v2)(device), device, false);
}

CUresult entry_cuDevicePrimaryCtxReset(CUdevice device) {
  PASS_OR_RETURN(pass);
  return after_primary(REAL(cuDevicePrimaryCtxReset)(device), device, true);
}

CUresult entry_cuDevicePrimaryCtxReset_v2(CUdevice device) {
  PASS_OR_RETURN(pass);
  return after_primary(REAL(cuDevicePrimaryCtxReset_v2)(device), device, true);
}

CUresult entry_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  PASS_OR_RETURN(pass);
  return peer_access(REAL(cuCtxEnablePeerAccess)(peer, flags), peer, true);
}

CUresult entry_cuCtxDisablePeerAccess(CUcontext peer) {
  PASS_OR_RETURN(pass);
  return peer_access(REAL(cuCtxDisablePeerAccess)(peer), peer, false);
}

}  // namespace ckpt::cuda
