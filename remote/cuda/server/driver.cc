// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/driver.h"

namespace ckpt::remote::cuda {
namespace {

Driver the_driver;

}  // namespace

const Driver &driver() { return the_driver; }

Result<> load_driver(const std::string &path, int flags) {
  void *handle = ::dlopen(path.c_str(), flags);
  if (handle == nullptr) return fail("cannot load the CUDA driver {}: {}", path, ::dlerror());
  for (size_t i = 0; i < api::kCudaEntries; i++)
    the_driver.entries[i] = ::dlsym(handle, api::kCudaTable[i].symbol);
#define X(symbol, type) \
  the_driver.symbol =   \
      reinterpret_cast<type>(the_driver.entries[static_cast<size_t>(api::CudaId::id_##symbol)]);
  CKPT_SERVER_CALLS(X)
#undef X
  if (!the_driver.cuInit || !the_driver.cuMemMap)
    return fail("{} is not a CUDA driver, or it is older than CUDA 10.2", path);
  return {};
}

}  // namespace ckpt::remote::cuda
