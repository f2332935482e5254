// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/lifecycle/future.h"

#include <cstring>

#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {
namespace {

CUresult newer_memset(CUdeviceptr p, unsigned char value, size_t n, unsigned flags) {
  REQUIRE(flags == 1, CUDA_ERROR_INVALID_VALUE);
  return cuMemsetD8(p, value, n);
}

CUresult future_memset(CUdeviceptr p, float value, size_t n, int two, int three, int four, int five,
                       int six) {
  REQUIRE(two == 2 && three == 3 && four == 4 && five == 5 && six == 6, CUDA_ERROR_INVALID_VALUE);
  unsigned bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return cuMemsetD32(p, bits, n);
}

}  // namespace

void *future_entry(const char *name) {
  if (std::strcmp(name, "cuMemsetD8") == 0) return reinterpret_cast<void *>(&newer_memset);
  if (std::strcmp(name, "cuMemsetFuture") == 0) return reinterpret_cast<void *>(&future_memset);
  return nullptr;
}

}  // namespace ckpt::softcuda::driver
