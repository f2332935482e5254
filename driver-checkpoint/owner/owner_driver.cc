// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/owner/owner_driver.h"

#include <dlfcn.h>

#include "driver-checkpoint/uuid.h"

namespace ckpt::cuda {

Result<> OwnerDriver::checked(CUresult e, const char *what) const {
  if (e == CUDA_SUCCESS) return {};
  const char *name = nullptr;
  if (cuGetErrorName(e, &name) != CUDA_SUCCESS) name = "unknown error";
  return fail("cannot {}: {}", what, name);
}

Result<> OwnerDriver::load(const std::string &path) {
  void *file = path.empty() ? nullptr : ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) return fail("cannot load the CUDA driver \"{}\"", path);
#define X(symbol, type)                                    \
  symbol = reinterpret_cast<type>(::dlsym(file, #symbol)); \
  if (symbol == nullptr) return fail("the CUDA driver {} has no {}", path, #symbol);
  CKPT_OWNER_ENTRIES(X)
#undef X
  return checked(cuInit(0), "initialise the CUDA driver");
}

Result<CUdevice> OwnerDriver::device_with(const std::string &uuid) const {
  int count = 0;
  CKPT_CHECK(checked(cuDeviceGetCount(&count), "count the CUDA devices"));
  for (int i = 0; i < count; i++) {
    CUdevice device = 0;
    CUuuid its{};
    if (cuDeviceGet(&device, i) == CUDA_SUCCESS &&
        cuDeviceGetUuid_v2(&its, device) == CUDA_SUCCESS && uuid_text(its) == uuid)
      return device;
  }
  return fail("no CUDA device has the UUID {}", uuid);
}

Result<CUcontext> OwnerDriver::context_on(CUdevice device) {
  std::scoped_lock lock(mutex_);
  CUcontext &context = contexts_[device];
  if (context == nullptr)
    CKPT_CHECK(checked(cuDevicePrimaryCtxRetain(&context, device), "make a context"));
  return context;
}

}  // namespace ckpt::cuda
