// SPDX-License-Identifier: Apache-2.0
//
// Managed variables of a program that sees several devices.
//
//   managed_devices DEVICE [first]   uses them on this device; first: the host does so before
#include <cstring>

#include "check.h"

__managed__ int shared = 5;
__managed__ int table[300] = {1, 2, 3};
__device__ int own = 7;

__global__ void change() {
  if (threadIdx.x == 0) shared *= 3;
  table[threadIdx.x] += own;
}
__global__ void change_own() { own += 1; }

int main(int argc, char **argv) {
  int device = argc > 1 ? std::atoi(argv[1]) : 0, devices = 0;
  CUDA(cudaGetDeviceCount(&devices));
  CUDA(cudaSetDevice(device));
  if (argc > 2) {
    CHECK(shared == 5 && table[2] == 3);
    shared = 6;
  }
  int begin = argc > 2 ? 6 : 5;
  for (int i = 1; i <= 2; i++) {
    change<<<1, 300>>>();
    CUDA(cudaDeviceSynchronize());
    begin *= 3;
    CHECK(shared == begin && table[0] == 1 + 7 * i && table[299] == 7 * i);
  }
  // Other variables exist once for each device.
  for (int d = 0; d < devices; d++) {
    CUDA(cudaSetDevice(d));
    change_own<<<1, 1>>>();
    int value = 0;
    CUDA(cudaMemcpyFromSymbol(&value, own, sizeof value));
    CHECK(value == 8);
  }
  CHECK(shared == begin);
  std::printf("%d devices\n", devices);
  return passed();
}
