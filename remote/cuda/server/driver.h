// SPDX-License-Identifier: Apache-2.0
//
// The real driver, opened by its path.
#pragma once

#include <dlfcn.h>

#include <string>

#include "common/base/result.h"
#include "cuda/entries.h"
#include "remote/cuda/handles.h"

namespace ckpt::remote::cuda {

// The entries that the server calls by name. One that an older driver does not have is null.
#define CKPT_SERVER_CALLS(X)                                           \
  X(cuInit, PFN_cuInit_v2000)                                          \
  X(cuDeviceGet, PFN_cuDeviceGet_v2000)                                \
  X(cuDeviceGetCount, PFN_cuDeviceGetCount_v2000)                      \
  X(cuDeviceGetUuid_v2, PFN_cuDeviceGetUuid_v11040)                    \
  X(cuCtxGetCurrent, PFN_cuCtxGetCurrent_v4000)                        \
  X(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000)                        \
  X(cuCtxGetDevice, PFN_cuCtxGetDevice_v2000)                          \
  X(cuCtxSynchronize, PFN_cuCtxSynchronize_v2000)                      \
  X(cuMemAddressReserve, PFN_cuMemAddressReserve_v10020)               \
  X(cuMemAddressFree, PFN_cuMemAddressFree_v10020)                     \
  X(cuMemCreate, PFN_cuMemCreate_v10020)                               \
  X(cuMemRelease, PFN_cuMemRelease_v10020)                             \
  X(cuMemMap, PFN_cuMemMap_v10020)                                     \
  X(cuMemUnmap, PFN_cuMemUnmap_v10020)                                 \
  X(cuMemSetAccess, PFN_cuMemSetAccess_v10020)                         \
  X(cuModuleLoadData, PFN_cuModuleLoadData_v2000)                      \
  X(cuModuleLoadDataEx, PFN_cuModuleLoadDataEx_v2010)                  \
  X(cuModuleGetGlobal_v2, PFN_cuModuleGetGlobal_v3020)                 \
  X(cuLibraryLoadData, PFN_cuLibraryLoadData_v12000)                   \
  X(cuLibraryGetGlobal, PFN_cuLibraryGetGlobal_v12000)                 \
  X(cuLinkCreate_v2, PFN_cuLinkCreate_v6050)                           \
  X(cuLinkAddData_v2, PFN_cuLinkAddData_v6050)                         \
  X(cuLinkComplete, PFN_cuLinkComplete_v5050)                          \
  X(cuLinkDestroy, PFN_cuLinkDestroy_v5050)                            \
  X(cuKernelGetAttribute, PFN_cuKernelGetAttribute_v12000)             \
  X(cuFuncGetAttribute, PFN_cuFuncGetAttribute_v2020)                  \
  X(cuKernelGetParamInfo, PFN_cuKernelGetParamInfo_v12040)             \
  X(cuFuncGetParamInfo, PFN_cuFuncGetParamInfo_v12040)                 \
  X(cuLaunchKernel, PFN_cuLaunchKernel_v4000)                          \
  X(cuLaunchKernelEx, PFN_cuLaunchKernelEx_v11060)                     \
  X(cuLaunchHostFunc, PFN_cuLaunchHostFunc_v10000)                     \
  X(cuMemHostRegister_v2, PFN_cuMemHostRegister_v6050)                 \
  X(cuMemHostUnregister, PFN_cuMemHostUnregister_v4000)                \
  X(cuMemHostGetDevicePointer_v2, PFN_cuMemHostGetDevicePointer_v3020) \
  X(cuStreamCreate, PFN_cuStreamCreate_v2000)                          \
  X(cuStreamQuery, PFN_cuStreamQuery_v2000)                            \
  X(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000)                \
  X(cuStreamWriteValue32_v2, PFN_cuStreamWriteValue32_v11070)          \
  X(cuStreamWriteValue64_v2, PFN_cuStreamWriteValue64_v11070)          \
  X(cuStreamWaitValue32_v2, PFN_cuStreamWaitValue32_v11070)            \
  X(cuStreamWaitValue64_v2, PFN_cuStreamWaitValue64_v11070)            \
  X(cuMemcpyHtoD_v2, PFN_cuMemcpyHtoD_v3020)                           \
  X(cuMemcpyDtoH_v2, PFN_cuMemcpyDtoH_v3020)                           \
  X(cuMemcpyHtoDAsync_v2, PFN_cuMemcpyHtoDAsync_v3020)                 \
  X(cuMemcpyDtoHAsync_v2, PFN_cuMemcpyDtoHAsync_v3020)                 \
  X(cuMemcpyDtoDAsync_v2, PFN_cuMemcpyDtoDAsync_v3020)                 \
  X(cuMemcpy3DAsync_v2, PFN_cuMemcpy3DAsync_v3020)                     \
  X(cuArray3DCreate_v2, PFN_cuArray3DCreate_v3020)                     \
  X(cuArrayDestroy, PFN_cuArrayDestroy_v2000)                          \
  X(cuMipmappedArrayCreate, PFN_cuMipmappedArrayCreate_v5000)          \
  X(cuMipmappedArrayGetLevel, PFN_cuMipmappedArrayGetLevel_v5000)      \
  X(cuTexObjectCreate, PFN_cuTexObjectCreate_v5000)                    \
  X(cuTexObjectDestroy, PFN_cuTexObjectDestroy_v5000)                  \
  X(cuSurfObjectCreate, PFN_cuSurfObjectCreate_v5000)                  \
  X(cuSurfObjectDestroy, PFN_cuSurfObjectDestroy_v5000)                \
  X(cuMemsetD2D8Async, PFN_cuMemsetD2D8Async_v3020)                    \
  X(cuMemsetD2D16Async, PFN_cuMemsetD2D16Async_v3020)                  \
  X(cuMemsetD2D32Async, PFN_cuMemsetD2D32Async_v3020)

struct Driver {
#define X(symbol, type) type symbol = nullptr;
  CKPT_SERVER_CALLS(X)
#undef X
  void *entries[api::kCudaEntries];  // all of them, for the lines of cuda.api
};

// Loads the driver; driver() then has its entries. `flags`: of dlopen(3).
Result<> load_driver(const std::string &path, int flags = RTLD_NOW | RTLD_LOCAL);
const Driver &driver();

}  // namespace ckpt::remote::cuda
