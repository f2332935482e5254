// SPDX-License-Identifier: Apache-2.0
//
// A library whose constructor calls the driver, while the loader's lock is held.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>

__attribute__((constructor)) static void start() {
  size_t free_bytes = 0, total = 0;
  CUdeviceptr p = 0;
  CUresult asked = cuMemGetInfo(&free_bytes, &total), allocated = cuMemAlloc(&p, 4096);
  if (asked != CUDA_SUCCESS || allocated != CUDA_SUCCESS) {
    std::printf("constructor: errors %d and %d\n", asked, allocated);
    std::exit(1);
  }
}
