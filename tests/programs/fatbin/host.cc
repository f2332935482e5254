// SPDX-License-Identifier: Apache-2.0
//
// Calls the runtime and has no kernel.
#include <cuda_runtime.h>

int main() {
  int n = 0;
  return cudaGetDeviceCount(&n);
}
