// SPDX-License-Identifier: Apache-2.0
//
// How long a known amount of work takes by events: prints milliseconds of a kernel and of a copy.
#include "check.h"

__global__ void work(float *p, int rounds) {
  float a = p[threadIdx.x];
  for (int r = 0; r < rounds; ++r) asm volatile("add.f32 %0, %0, 0f3F800000;" : "+f"(a));
  p[threadIdx.x] = a;
}

int main() {
  const size_t bytes = 8 << 20;
  float *p;
  char *host;
  CUDA(cudaMalloc(&p, bytes));
  CUDA(cudaMallocHost(&host, bytes));
  cudaEvent_t a, b, c;
  CUDA(cudaEventCreate(&a));
  CUDA(cudaEventCreate(&b));
  CUDA(cudaEventCreate(&c));
  work<<<1, 32>>>(p, 1);
  CUDA(cudaEventRecord(a));
  work<<<1, 100>>>(p, 1000);
  CUDA(cudaEventRecord(b));
  CUDA(cudaMemcpyAsync(p, host, bytes, cudaMemcpyHostToDevice));
  CUDA(cudaEventRecord(c));
  CUDA(cudaDeviceSynchronize());
  float kernel, copy;
  CUDA(cudaEventElapsedTime(&kernel, a, b));
  CUDA(cudaEventElapsedTime(&copy, b, c));
  std::printf("%.1f %.1f\n", kernel, copy);
  return passed();
}
