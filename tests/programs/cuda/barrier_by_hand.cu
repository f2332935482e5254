// SPDX-License-Identifier: Apache-2.0
//
// A barrier across the grid that is made by hand: it needs all blocks on the device at once, as no
// program may assume without a cooperative launch, and as some do. Prints how long each launch took.
#include <chrono>

#include "check.h"

__global__ void barrier(volatile unsigned *count, int *out, unsigned round) {
  if (threadIdx.x != 0) return;
  atomicAdd(const_cast<unsigned *>(count), 1);
  while (*count < gridDim.x * round) {
  }
  out[blockIdx.x] += round;
}

int main() {
  const int blocks = 2;  // as many as the software device can run at once
  unsigned *count;
  int *out;
  CUDA(cudaMalloc(&count, sizeof(unsigned)));
  CUDA(cudaMalloc(&out, blocks * sizeof(int)));
  CUDA(cudaMemset(count, 0, sizeof(unsigned)));
  CUDA(cudaMemset(out, 0, blocks * sizeof(int)));
  for (unsigned round = 1; round <= 3; ++round) {
    auto begin = std::chrono::steady_clock::now();
    barrier<<<blocks, 32>>>(count, out, round);
    CUDA(cudaDeviceSynchronize());
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    printf("round %u %.3f s\n", round, taken.count());
  }
  int host[blocks];
  CUDA(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  for (int v : host) CHECK(v == 6);
  return passed();
}
