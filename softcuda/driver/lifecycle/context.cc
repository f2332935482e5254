// SPDX-License-Identifier: Apache-2.0
//
// cuCtx*, cuProfiler*.
#include "softcuda/driver/lifecycle/context_end.h"
#include "softcuda/driver/state/context_state.h"

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

namespace {

CUcontext handle(Context *c) { return reinterpret_cast<CUcontext>(c); }
Context *object(CUcontext c) { return reinterpret_cast<Context *>(c); }

}  // namespace

SOFTCUDA_API CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags,
                                     CUdevice device) {
  CALL_INITIALISED();
  Device *d = device_at(device);
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_DEVICE);
  REQUIRE(params == nullptr || (params->numExecAffinityParams == 0 && params->cigParams == nullptr),
          CUDA_ERROR_NOT_SUPPORTED);
  Context *c = new_context(*d, flags);
  REQUIRE(c != nullptr, CUDA_ERROR_OUT_OF_MEMORY);
  context_stack().push_back(c);
  *out = handle(c);
  return CUDA_SUCCESS;
}

#undef cuCtxCreate
SOFTCUDA_API CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v4(out, nullptr, flags, device);
}

SOFTCUDA_API CUresult cuCtxDestroy_v2(CUcontext context) {
  CALL_INITIALISED();
  Context *c = object(context);
  REQUIRE(process().contexts.holds(c), CUDA_ERROR_INVALID_CONTEXT);
  REQUIRE(!c->is_primary, CUDA_ERROR_INVALID_CONTEXT);
  if (current_context() == c) context_stack().pop_back();
  destroy_context(c);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxPushCurrent_v2(CUcontext context) {
  CALL_INITIALISED();
  REQUIRE(process().contexts.holds(context), CUDA_ERROR_INVALID_CONTEXT);
  context_stack().push_back(object(context));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxPopCurrent_v2(CUcontext *out) {
  CALL_INITIALISED();
  REQUIRE(!context_stack().empty(), CUDA_ERROR_INVALID_CONTEXT);
  if (out != nullptr) *out = handle(context_stack().back());
  context_stack().pop_back();
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxSetCurrent(CUcontext context) {
  CALL_INITIALISED();
  REQUIRE(context == nullptr || process().contexts.holds(context), CUDA_ERROR_INVALID_CONTEXT);
  if (!context_stack().empty()) context_stack().pop_back();
  if (context != nullptr) context_stack().push_back(object(context));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxGetCurrent(CUcontext *out) {
  CALL_INITIALISED();
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = handle(current_context());
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxGetDevice(CUdevice *device) {
  CALL_WITH_CONTEXT();
  REQUIRE(device != nullptr, CUDA_ERROR_INVALID_VALUE);
  *device = call.context->device->index;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxGetFlags(unsigned int *flags) {
  CALL_WITH_CONTEXT();
  REQUIRE(flags != nullptr, CUDA_ERROR_INVALID_VALUE);
  *flags = call.context->flags;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxSetFlags(unsigned int flags) {
  CALL_WITH_CONTEXT();
  call.context->flags = flags;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxGetId(CUcontext context, unsigned long long *id) {
  CALL_INITIALISED();
  Context *c = context == nullptr ? current_context() : object(context);
  REQUIRE(id != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(process().contexts.holds(c), CUDA_ERROR_INVALID_CONTEXT);
  *id = c->id;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version) {
  CALL_INITIALISED();
  REQUIRE(version != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(context == nullptr || process().contexts.holds(context), CUDA_ERROR_INVALID_CONTEXT);
  *version = 3020;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxSynchronize() {
  CALL_WITH_CONTEXT();
  call.context->synchronize();
  return call.context->error;
}

SOFTCUDA_API CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  CALL_WITH_CONTEXT();
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      call.context->stack_bytes = std::min<size_t>(value, 512 << 10);
      return CUDA_SUCCESS;
    case CU_LIMIT_PRINTF_FIFO_SIZE: call.context->printf_bytes = value; return CUDA_SUCCESS;
    case CU_LIMIT_MALLOC_HEAP_SIZE: call.context->heap_bytes = value; return CUDA_SUCCESS;
    default: return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
}

SOFTCUDA_API CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
  CALL_WITH_CONTEXT();
  REQUIRE(value != nullptr, CUDA_ERROR_INVALID_VALUE);
  switch (limit) {
    case CU_LIMIT_STACK_SIZE: *value = call.context->stack_bytes; return CUDA_SUCCESS;
    case CU_LIMIT_PRINTF_FIFO_SIZE: *value = call.context->printf_bytes; return CUDA_SUCCESS;
    case CU_LIMIT_MALLOC_HEAP_SIZE: *value = call.context->heap_bytes; return CUDA_SUCCESS;
    default: return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
}

// There is only one cache configuration.
SOFTCUDA_API CUresult cuCtxGetCacheConfig(CUfunc_cache *config) {
  CALL_WITH_CONTEXT();
  REQUIRE(config != nullptr, CUDA_ERROR_INVALID_VALUE);
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxSetCacheConfig(CUfunc_cache) {
  CALL_WITH_CONTEXT();
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxResetPersistingL2Cache() {
  CALL_WITH_CONTEXT();
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  CALL_WITH_CONTEXT();
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  CALL_WITH_CONTEXT();
  REQUIRE(flags == 0, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(process().contexts.holds(peer) && object(peer) != call.context,
          CUDA_ERROR_INVALID_CONTEXT);
  ckpt::u32 bit = 1u << object(peer)->device->index;
  REQUIRE(object(peer)->device != call.context->device, CUDA_ERROR_INVALID_DEVICE);
  return (call.context->peers.fetch_or(bit) & bit) != 0 ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
                                                        : CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  CALL_WITH_CONTEXT();
  REQUIRE(process().contexts.holds(peer), CUDA_ERROR_INVALID_CONTEXT);
  ckpt::u32 bit = 1u << object(peer)->device->index;
  return (call.context->peers.fetch_and(~bit) & bit) == 0 ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
                                                          : CUDA_SUCCESS;
}

// The forms with a context parameter.
SOFTCUDA_API CUresult cuCtxSynchronize_v2(CUcontext context) {
  CALL_INITIALISED();
  if (context == nullptr) return cuCtxSynchronize();
  REQUIRE(process().contexts.holds(context), CUDA_ERROR_INVALID_CONTEXT);
  object(context)->synchronize();
  return object(context)->error;
}

SOFTCUDA_API CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context) {
  CALL_INITIALISED();
  if (context == nullptr) return cuCtxGetDevice(device);
  REQUIRE(device != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(process().contexts.holds(context), CUDA_ERROR_INVALID_CONTEXT);
  *device = object(context)->device->index;
  return CUDA_SUCCESS;
}

// There is no profiler to start or stop.
SOFTCUDA_API CUresult cuProfilerStart() { return CUDA_SUCCESS; }
SOFTCUDA_API CUresult cuProfilerStop() { return CUDA_SUCCESS; }
