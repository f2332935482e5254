// SPDX-License-Identifier: Apache-2.0
//
// The stack of contexts of each thread is kept here: a call carries its context along.
#include <algorithm>
#include <vector>

#include "remote/cuda/client/code/placed_code.h"
#include "remote/cuda/client/graphs/capture.h"
#include "remote/cuda/client/memory/shared_memory.h"
#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {
namespace {

std::vector<u64> &stack() {
  thread_local std::vector<u64> contexts;
  return contexts;
}

CUcontext handle(u64 number) { return reinterpret_cast<CUcontext>(number); }

bool is_context(CUcontext c) {
  return kind_of(number_of(c)) == Kind::Context && ledger().lives(number_of(c));
}

// The context has ended or is empty again.
void end_contents_of(u64 context) {
  if (context == 0) return;
  shared_memory().end_all(context);
  forget_captures_of(context);
  memory().release_all(context);
  for (u64 ended : ledger().end_all_of(context)) code_ended(ended);
  end_placed_variables_of(context);
}

// The same for a primary context. Its driver may give the addresses of what has ended to new
// objects.
void end_contents_of_primary(u64 context, CUdevice device) {
  if (context == 0) return;
  link().send(number(Op::Emptied), site_of_device(device), {Writer().put(context).bytes()});
  end_contents_of(context);
}

CUresult device_of(u64 context, CUdevice *out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  std::optional<CUdevice> device = ledger().device_of(context);
  if (!device) return CUDA_ERROR_INVALID_CONTEXT;
  *out = *device;
  return CUDA_SUCCESS;
}

}  // namespace

u64 current_context() { return stack().empty() ? 0 : stack().back(); }

InContext::InContext(u64 context) { stack().push_back(context); }
InContext::~InContext() { stack().pop_back(); }

CUresult entry_cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device) {
  CUresult e = ask_cuCtxCreate_v2(out, flags, device);
  if (e != CUDA_SUCCESS) return e;
  ledger().set_device(number_of(*out), device);
  stack().push_back(number_of(*out));
  return e;
}

CUresult entry_cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *parameters, unsigned flags,
                              CUdevice device) {
  if (parameters && (parameters->execAffinityParams || parameters->cigParams))
    return refuse("cuCtxCreate_v4", "contexts with parameters are not carried to other nodes");
  return entry_cuCtxCreate_v2(out, flags, device);
}

CUresult entry_cuCtxDestroy_v2(CUcontext context) {
  CUresult e = ask_cuCtxDestroy_v2(context);
  if (e != CUDA_SUCCESS) return e;
  if (current_context() == number_of(context)) stack().pop_back();  // calls of it would fail
  end_contents_of(number_of(context));
  return e;
}

CUresult entry_cuCtxGetCurrent(CUcontext *out) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = handle(current_context());
  return CUDA_SUCCESS;
}

CUresult entry_cuCtxSetCurrent(CUcontext context) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (context && !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!stack().empty()) stack().pop_back();
  if (context) stack().push_back(number_of(context));
  return CUDA_SUCCESS;
}

CUresult entry_cuCtxPushCurrent_v2(CUcontext context) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  stack().push_back(number_of(context));
  return CUDA_SUCCESS;
}

CUresult entry_cuCtxPopCurrent_v2(CUcontext *out) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out) *out = handle(stack().back());
  stack().pop_back();
  return CUDA_SUCCESS;
}

CUresult entry_cuCtxGetDevice(CUdevice *out) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  return device_of(current_context(), out);
}

CUresult entry_cuCtxGetDevice_v2(CUdevice *out, CUcontext context) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  return device_of(context ? number_of(context) : current_context(), out);
}

CUresult entry_cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
  CUresult e = ask_cuDevicePrimaryCtxRetain(out, device);
  if (e == CUDA_SUCCESS && out) ledger().retain(number_of(*out), device);
  return e;
}

// With its last user it ends, and all that was made in it.
CUresult entry_cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  CUresult e = ask_cuDevicePrimaryCtxRelease_v2(device);
  u64 context = ledger().primary_of(device);
  if (e != CUDA_SUCCESS || context == 0 || ledger().release(context)) return e;
  end_contents_of_primary(context, device);
  object_ended(context);
  return e;
}

CUresult entry_cuDevicePrimaryCtxReset_v2(CUdevice device) {
  CUresult e = ask_cuDevicePrimaryCtxReset_v2(device);
  if (e == CUDA_SUCCESS) end_contents_of_primary(ledger().primary_of(device), device);
  return e;
}

}  // namespace ckpt::remote::cuda
