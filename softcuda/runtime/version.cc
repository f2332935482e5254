// SPDX-License-Identifier: Apache-2.0
//
// What libcudart.so.12 and libcudart.so.13 differ in, besides the functions that they export.
#include "softcuda/runtime/state.h"

using namespace ckpt::softcuda::runtime;

CUDART_API cudaError_t cudaRuntimeGetVersion(int *version) {
  if (version == nullptr) return keep(cudaErrorInvalidValue);
  *version = SOFTCUDA_RUNTIME_VERSION;
  return cudaSuccess;
}
