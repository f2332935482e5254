// SPDX-License-Identifier: Apache-2.0
//
// cuIpc*MemHandle.
#include "libckpt-cuda/calls/calls.h"
#include "libckpt-cuda/memory/ipc_memory.h"

namespace ckpt::cuda {
namespace {

CUresult open_handle(Id id, CUdeviceptr *out, const CUipcMemHandle &handle, unsigned flags) {
  if (const char *why = reason_against_sharing()) return refuse(id, why);
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  ContextInfo context;
  if (CUresult e = current_context(context); e != CUDA_SUCCESS) return e;
  return with_memory([&] { return ipc_memory().open_handle(handle, context, *out); });
}

}  // namespace

CUresult entry_cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr p) {
  PASS_OR_RETURN(pass);
  if (const char *why = reason_against_sharing()) return refuse(Id::id_cuIpcGetMemHandle, why);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ContextInfo context;
  if (CUresult e = current_context(context); e != CUDA_SUCCESS) return e;
  return ipc_memory().get_handle(p, *out);
}

CUresult entry_cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags) {
  PASS_OR_RETURN(pass);
  return open_handle(Id::id_cuIpcOpenMemHandle, out, handle, flags);
}

CUresult entry_cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags) {
  PASS_OR_RETURN(pass);
  return open_handle(Id::id_cuIpcOpenMemHandle_v2, out, handle, flags);
}

CUresult entry_cuIpcCloseMemHandle(CUdeviceptr p) {
  PASS_OR_RETURN(pass);
  if (const char *why = reason_against_sharing()) return refuse(Id::id_cuIpcCloseMemHandle, why);
  return ipc_memory().close_handle(p);
}

}  // namespace ckpt::cuda
