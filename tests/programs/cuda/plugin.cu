// SPDX-License-Identifier: Apache-2.0
//
// A library for programs that load it while they run.
#include <cuda_runtime.h>

__global__ void nothing() {}

extern "C" int probe() {
  nothing<<<1, 1>>>();
  return cudaDeviceSynchronize();
}
