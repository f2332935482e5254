// SPDX-License-Identifier: Apache-2.0
//
// devmem: the vectors are variables of the device, whose memory is there before any call asks for
// it (MC-14). Their size is the compiler's: -DDEVMEM_MIB=N, and MIB must say the same.
#include <vector>

#include "mobile.h"

#ifndef DEVMEM_MIB
#define DEVMEM_MIB 24
#endif

constexpr size_t kElements = (static_cast<size_t>(DEVMEM_MIB) << 20) / 3 / sizeof(int);

__device__ int va[kElements], vb[kElements], vc[kElements];

__global__ void fill() {
  size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < kElements) va[i] = static_cast<int>(i), vb[i] = 2 * static_cast<int>(i);
}

__global__ void add_variables(size_t at, size_t n) {
  size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < n) vc[at + i] = va[at + i] + vb[at + i];
}

int main(int argc, char **argv) {
  Size s = size_of(argc, argv);
  CHECK(s.bytes == static_cast<size_t>(DEVMEM_MIB) << 20);
  const size_t part = part_size(kElements);
  fill<<<(kElements + 255) / 256, 256>>>();
  std::vector<int> z(part);
  for (int r = 0; r < s.rounds; ++r) {
    size_t at = part_of(r, kElements);
    add_variables<<<(part + 255) / 256, 256>>>(at, part);
    CUDA(cudaMemcpyFromSymbol(z.data(), vc, part * sizeof(int), at * sizeof(int)));
    for (size_t i = 0; i < part; ++i) CHECK(z[i] == 3 * static_cast<int>(at + i));
  }
  return passed();
}
