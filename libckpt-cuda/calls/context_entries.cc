// SPDX-License-Identifier: Apache-2.0
//
// Calls that make and destroy contexts, and give them access to each other's memory.
#include <optional>

#include "driver-checkpoint/forked_child.h"
#include "libckpt-cuda/calls/calls.h"
#include "libckpt-cuda/calls/manager_requests.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/entry/streams.h"
#include "libckpt-cuda/events/interprocess_events.h"
#include "libckpt-cuda/memory/contexts.h"
#include "libckpt-cuda/memory/ipc_memory.h"
#include "libckpt-cuda/memory/memory.h"
#include "libckpt-cuda/memory/paired_memory.h"
#include "libckpt-cuda/memory/pools.h"

namespace ckpt::cuda {
namespace {

// The results of the driver's calls pass through the following functions.

// Libraries retain a primary context again and again, which opens nothing.
template <class Fn>
CUresult created(Fn create, const CUcontext *context, CUdevice device, bool primary) {
  std::optional<OpensDevices> opens;
  if (!primary || !primary_context(device)) opens.emplace();
  CUresult e = with_memory(create);
  if (e != CUDA_SUCCESS) return e;
  note_context({*context, device, primary});
  if (paired_memory().any()) paired_memory().reach_from(device);
  report_context_made();
  return e;
}

CUresult destroyed(CUresult e, CUcontext context) {
  if (e != CUDA_SUCCESS) return e;
  memory().release_context(context);
  ipc_memory().release_context(context);
  interprocess_events().release_context(context);
  paired_memory().release_context(context);
  pools().context_destroyed(context);
  forget_captures(context);
  forget_context(context);
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
  note_access(accessor.handle, owner, allowed);
  return memory().set_access(owner, accessor.device, allowed);
}

}  // namespace

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
