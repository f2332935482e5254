// SPDX-License-Identifier: Apache-2.0
//
// The real driver, and those of its entries that this library calls itself. Their addresses come
// from the driver's file, so these calls do not pass the gate.
#pragma once

#include <string>

#include "common/base/result.h"
#include "libckpt-cuda/entry/entries.h"

namespace ckpt::cuda {

// The entries that this library calls, besides those of driver-checkpoint/checkpoint_entries.h.
// Those that an older driver does not have are null.
#define CKPT_CUDA_USED(X)                                                            \
  X(cuGetErrorName, PFN_cuGetErrorName_v6000)                                        \
  X(cuDriverGetVersion, PFN_cuDriverGetVersion_v2020)                                \
  X(cuDeviceGetCount, PFN_cuDeviceGetCount_v2000)                                    \
  X(cuDeviceGet, PFN_cuDeviceGet_v2000)                                              \
  X(cuDeviceGetName, PFN_cuDeviceGetName_v2000)                                      \
  X(cuDeviceGetPCIBusId, PFN_cuDeviceGetPCIBusId_v4010)                              \
  X(cuDeviceGetUuid_v2, PFN_cuDeviceGetUuid_v11040)                                  \
  X(cuDeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000)                            \
  X(cuDeviceTotalMem_v2, PFN_cuDeviceTotalMem_v3020)                                 \
  X(cuDeviceCanAccessPeer, PFN_cuDeviceCanAccessPeer_v4000)                          \
  X(cuThreadExchangeStreamCaptureMode, PFN_cuThreadExchangeStreamCaptureMode_v10010) \
  X(cuDevicePrimaryCtxGetState, PFN_cuDevicePrimaryCtxGetState_v7000)                \
  X(cuCtxGetCurrent, PFN_cuCtxGetCurrent_v4000)                                      \
  X(cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000)                    \
  X(cuDevicePrimaryCtxRelease_v2, PFN_cuDevicePrimaryCtxRelease_v11000)              \
  X(cuDeviceGetMemPool, PFN_cuDeviceGetMemPool_v11020)                               \
  X(cuDeviceGetDefaultMemPool, PFN_cuDeviceGetDefaultMemPool_v11020)                 \
  X(cuStreamGetCtx, PFN_cuStreamGetCtx_v9020)                                        \
  X(cuCtxGetDevice, PFN_cuCtxGetDevice_v2000)                                        \
  X(cuCtxPushCurrent_v2, PFN_cuCtxPushCurrent_v4000)                                 \
  X(cuCtxPopCurrent_v2, PFN_cuCtxPopCurrent_v4000)                                   \
  X(cuCtxSynchronize, PFN_cuCtxSynchronize_v2000)                                    \
  X(cuStreamCreate, PFN_cuStreamCreate_v2000)                                        \
  X(cuCtxGetStreamPriorityRange, PFN_cuCtxGetStreamPriorityRange_v5050)              \
  X(cuGreenCtxCreate, PFN_cuGreenCtxCreate_v12040)                                   \
  X(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000)                              \
  X(cuStreamSynchronize_ptsz, PFN_cuStreamSynchronize_v7000_ptsz)                    \
  X(cuStreamDestroy_v2, PFN_cuStreamDestroy_v4000)                                   \
  X(cuEventCreate, PFN_cuEventCreate_v2000)                                          \
  X(cuEventRecord, PFN_cuEventRecord_v2000)                                          \
  X(cuEventSynchronize, PFN_cuEventSynchronize_v2000)                                \
  X(cuEventDestroy_v2, PFN_cuEventDestroy_v4000)                                     \
  X(cuEventQuery, PFN_cuEventQuery_v2000)                                            \
  X(cuEventElapsedTime, PFN_cuEventElapsedTime_v2000)                                \
  X(cuStreamWaitEvent, PFN_cuStreamWaitEvent_v3020)                                  \
  X(cuStreamIsCapturing, PFN_cuStreamIsCapturing_v10000)                             \
  X(cuCtxGetId, PFN_cuCtxGetId_v12000)                                               \
  X(cuModuleLoadData, PFN_cuModuleLoadData_v2000)                                    \
  X(cuModuleUnload, PFN_cuModuleUnload_v2000)                                        \
  X(cuModuleGetFunction, PFN_cuModuleGetFunction_v2000)                              \
  X(cuLibraryLoadData, PFN_cuLibraryLoadData_v12000)                                 \
  X(cuLibraryGetKernel, PFN_cuLibraryGetKernel_v12000)                               \
  X(cuLaunchKernel, PFN_cuLaunchKernel_v4000)                                        \
  X(cuMemHostRegister_v2, PFN_cuMemHostRegister_v6050)                               \
  X(cuMemHostUnregister, PFN_cuMemHostUnregister_v4000)                              \
  X(cuMemHostGetDevicePointer_v2, PFN_cuMemHostGetDevicePointer_v3020)               \
  X(cuMemHostAlloc, PFN_cuMemHostAlloc_v2020)                                        \
  X(cuMemFreeHost, PFN_cuMemFreeHost_v2000)                                          \
  X(cuMemcpyHtoDAsync_v2, PFN_cuMemcpyHtoDAsync_v3020)                               \
  X(cuMemcpyDtoHAsync_v2, PFN_cuMemcpyDtoHAsync_v3020)                               \
  X(cuMemsetD8Async, PFN_cuMemsetD8Async_v3020)                                      \
  X(cuMemGetAllocationGranularity, PFN_cuMemGetAllocationGranularity_v10020)         \
  X(cuMemAddressReserve, PFN_cuMemAddressReserve_v10020)                             \
  X(cuMemCreate, PFN_cuMemCreate_v10020)                                             \
  X(cuMemRelease, PFN_cuMemRelease_v10020)                                           \
  X(cuMemMap, PFN_cuMemMap_v10020)                                                   \
  X(cuMemUnmap, PFN_cuMemUnmap_v10020)                                               \
  X(cuMemExportToShareableHandle, PFN_cuMemExportToShareableHandle_v10020)           \
  X(cuMemImportFromShareableHandle, PFN_cuMemImportFromShareableHandle_v10020)       \
  X(cuMemSetAccess, PFN_cuMemSetAccess_v10020)

struct Driver {
#define X(symbol, type) type symbol = nullptr;
  CKPT_CUDA_USED(X)
#undef X
  const char *path = "";  // of the driver's file; empty: it could not be loaded
};

// Loaded by this library's constructor, and never unloaded.
const Driver &driver();

// "CUDA_ERROR_OUT_OF_MEMORY"
std::string error_name(CUresult e);
// An error says "cannot {what}: {error_name(e)}".
Result<> as_result(CUresult e, const char *what);

// Makes `context` the calling thread's current one for the lifetime of this object.
class CurrentContext {
 public:
  explicit CurrentContext(CUcontext context) { pushed_ = driver().cuCtxPushCurrent_v2(context); }
  ~CurrentContext() {
    CUcontext ignored = nullptr;
    if (pushed_ == CUDA_SUCCESS) driver().cuCtxPopCurrent_v2(&ignored);
  }
  CurrentContext(const CurrentContext &) = delete;
  CUresult status() const { return pushed_; }

 private:
  CUresult pushed_;
};

}  // namespace ckpt::cuda
