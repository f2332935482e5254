// SPDX-License-Identifier: Apache-2.0
//
// The driver in the owner's process, and a context of its own on each device.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "common/base/result.h"
#include "driver-checkpoint/checkpoint_entries.h"

namespace ckpt::cuda {

#define CKPT_OWNER_ENTRIES(X)                                                                  \
  X(cuInit, PFN_cuInit_v2000)                                                                  \
  X(cuGetErrorName, PFN_cuGetErrorName_v6000)                                                  \
  X(cuDeviceGetCount, PFN_cuDeviceGetCount_v2000)                                              \
  X(cuDeviceGet, PFN_cuDeviceGet_v2000)                                                        \
  X(cuDeviceGetUuid_v2, PFN_cuDeviceGetUuid_v11040)                                            \
  X(cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000)                              \
  X(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000)                                                \
  X(cuMemImportFromShareableHandle, PFN_cuMemImportFromShareableHandle_v10020)                 \
  X(cuMemGetAllocationPropertiesFromHandle, PFN_cuMemGetAllocationPropertiesFromHandle_v10020) \
  X(cuMemAddressReserve, PFN_cuMemAddressReserve_v10020)                                       \
  X(cuMemMap, PFN_cuMemMap_v10020)                                                             \
  X(cuMemSetAccess, PFN_cuMemSetAccess_v10020)                                                 \
  X(cuMemUnmap, PFN_cuMemUnmap_v10020)                                                         \
  X(cuMemAddressFree, PFN_cuMemAddressFree_v10020)                                             \
  X(cuMemRelease, PFN_cuMemRelease_v10020)                                                     \
  X(cuMemGetInfo_v2, PFN_cuMemGetInfo_v3020)                                                   \
  X(cuMemAlloc_v2, PFN_cuMemAlloc_v3020)                                                       \
  X(cuMemFree_v2, PFN_cuMemFree_v3020)                                                         \
  X(cuStreamCreate, PFN_cuStreamCreate_v2000)                                                  \
  X(cuEventCreate, PFN_cuEventCreate_v2000)                                                    \
  X(cuEventRecord, PFN_cuEventRecord_v2000)                                                    \
  X(cuEventSynchronize, PFN_cuEventSynchronize_v2000)                                          \
  X(cuEventDestroy_v2, PFN_cuEventDestroy_v4000)                                               \
  X(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000)                                        \
  X(cuMemcpyDtoDAsync_v2, PFN_cuMemcpyDtoDAsync_v3020)                                         \
  X(cuMemcpyDtoHAsync_v2, PFN_cuMemcpyDtoHAsync_v3020)                                         \
  X(cuMemHostRegister_v2, PFN_cuMemHostRegister_v6050)                                         \
  X(cuMemHostUnregister, PFN_cuMemHostUnregister_v4000)

// Thread-safe once it is loaded.
class OwnerDriver {
 public:
  // Loads the driver at `path`, and cuInit.
  Result<> load(const std::string &path);
  Result<CUdevice> device_with(const std::string &uuid) const;
  // Makes it, if there is none.
  Result<CUcontext> context_on(CUdevice device);
  // An error says "cannot {what}: CUDA_ERROR_…".
  Result<> checked(CUresult e, const char *what) const;

#define X(symbol, type) type symbol = nullptr;
  CKPT_OWNER_ENTRIES(X)
#undef X

 private:
  std::mutex mutex_;
  std::map<CUdevice, CUcontext> contexts_;
};

}  // namespace ckpt::cuda
