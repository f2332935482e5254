// SPDX-License-Identifier: Apache-2.0
//
// Entries of the driver by their names. Compiled twice, as copy.cc is: without flags a program gets
// the entries for its own default stream.
#include "softcuda/runtime/state.h"

using namespace ckpt::softcuda::runtime;

namespace {

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
constexpr unsigned long long kOwnStream = cudaEnablePerThreadDefaultStream;
#else
constexpr unsigned long long kOwnStream = cudaEnableLegacyStream;
#endif

cudaError_t find(const char *symbol, void **function, unsigned int version,
                 unsigned long long flags, cudaDriverEntryPointQueryResult *result) {
  CUdriverProcAddressQueryResult r{};
  CUresult e = cuGetProcAddress(symbol, function, static_cast<int>(version),
                                flags == cudaEnableDefault ? kOwnStream : flags, &r);
  if (result != nullptr) *result = static_cast<cudaDriverEntryPointQueryResult>(r);
  return e == CUDA_ERROR_NOT_FOUND ? cudaSuccess : keep(as_runtime(e));
}

}  // namespace

CUDART_API cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                                        unsigned int version,
                                                        unsigned long long flags,
                                                        cudaDriverEntryPointQueryResult *result) {
  return find(symbol, function, version, flags, result);
}
CUDART_API cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function,
                                               unsigned long long flags,
                                               cudaDriverEntryPointQueryResult *result) {
  return find(symbol, function, CUDART_VERSION, flags, result);
}
