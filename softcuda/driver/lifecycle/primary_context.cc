// SPDX-License-Identifier: Apache-2.0
//
// cuDevicePrimaryCtx*. The primary context of a device keeps its handle for as long as the process
// lives. A reset destroys what the context has but does not release it (CUDA driver API, "Primary
// Context Management"), so it is active again as soon as it is used or retained.
#include "softcuda/driver/lifecycle/context_end.h"
#include "softcuda/driver/state/context_state.h"

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

namespace {

std::mutex mutex;

CUresult retain(Device &d, Context *&out) {
  std::lock_guard lock(mutex);
  if (d.primary == nullptr) {
    Context *c = new_context(d, d.primary_flags);
    REQUIRE(c != nullptr, CUDA_ERROR_OUT_OF_MEMORY);
    c->is_primary = true;
    d.primary = c;
  }
  CHECK_CU(activate(*d.primary));
  process().contexts.add(d.primary);
  ++d.primary_uses;
  out = d.primary;
  return CUDA_SUCCESS;
}

void reset(Device &d) {
  if (d.primary != nullptr && !d.primary->inactive) empty_context(d.primary);
}

CUresult release(Device &d) {
  std::lock_guard lock(mutex);
  REQUIRE(d.primary_uses > 0, CUDA_ERROR_INVALID_CONTEXT);
  if (--d.primary_uses > 0) return CUDA_SUCCESS;
  process().contexts.remove(d.primary);
  reset(d);
  return CUDA_SUCCESS;
}

}  // namespace

SOFTCUDA_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  CALL_INITIALISED();
  Device *d = device_at(device);
  REQUIRE(context != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_DEVICE);
  Context *c = nullptr;
  CHECK_CU(retain(*d, c));
  *context = reinterpret_cast<CUcontext>(c);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  CALL_INITIALISED();
  Device *d = device_at(device);
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_DEVICE);
  std::lock_guard lock(mutex);
  reset(*d);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  CALL_INITIALISED();
  Device *d = device_at(device);
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_DEVICE);
  return release(*d);
}

SOFTCUDA_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  CALL_INITIALISED();
  Device *d = device_at(device);
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_DEVICE);
  d->primary_flags = flags;
  if (d->primary != nullptr) d->primary->flags = flags;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags,
                                                 int *active) {
  CALL_INITIALISED();
  Device *d = device_at(device);
  REQUIRE(flags != nullptr && active != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_DEVICE);
  *flags = d->primary_flags;
  *active = d->primary != nullptr && !d->primary->inactive;
  return CUDA_SUCCESS;
}
