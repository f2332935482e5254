// SPDX-License-Identifier: Apache-2.0
//
// Calls the CUDA runtime but has no kernel.
#include <cuda_runtime.h>

int main() {
  int n = 0;
  return cudaGetDeviceCount(&n);
}
