// SPDX-License-Identifier: Apache-2.0
//
// Measures a known amount of work with events. Prints the milliseconds of a kernel and of a copy.
// With an argument N, also those of N kernels in a row, of a copy during a kernel on mapped memory,
// and of a copy of the same size on the device.
#include <unistd.h>

#include "check.h"

__global__ void work(float *p, int rounds) {
  float a = p[threadIdx.x];
  for (int r = 0; r < rounds; ++r) asm volatile("add.f32 %0, %0, 0f3F800000;" : "+f"(a));
  p[threadIdx.x] = a;
}

static float between(cudaEvent_t a, cudaEvent_t b) {
  float ms;
  CUDA(cudaEventElapsedTime(&ms, a, b));
  return ms;
}

int main(int argc, char **argv) {
  const size_t bytes = 8 << 20;
  const int row = argc > 1 ? std::atoi(argv[1]) : 0;
  float *p, *mapped;
  char *host;
  CUDA(cudaMalloc(&p, bytes));
  CUDA(cudaMallocHost(&host, bytes));
  CUDA(cudaHostAlloc(&mapped, 4096, cudaHostAllocMapped));
  cudaEvent_t e[6];
  for (cudaEvent_t &one : e) CUDA(cudaEventCreate(&one));
  work<<<1, 32>>>(p, 1);
  CUDA(cudaEventRecord(e[0]));
  work<<<1, 100>>>(p, 1000);
  CUDA(cudaEventRecord(e[1]));
  CUDA(cudaMemcpyAsync(p, host, bytes, cudaMemcpyHostToDevice));
  CUDA(cudaEventRecord(e[2]));
  for (int i = 0; i < row; ++i) work<<<1, 100>>>(p, 1000);
  CUDA(cudaEventRecord(e[3]));
  CUDA(cudaDeviceSynchronize());
  std::printf("%.2f %.2f\n", between(e[0], e[1]), between(e[1], e[2]));
  if (row == 0) return passed();
  cudaStream_t kernels, copies;
  CUDA(cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
  work<<<1, 100, 0, kernels>>>(mapped, 1000);
  CUDA(cudaStreamSynchronize(kernels));
  work<<<1, 100, 0, kernels>>>(mapped, 1000);
  usleep(50000);  // until the kernel has reserved the bus
  CUDA(cudaEventRecord(e[4], copies));
  CUDA(cudaMemcpyAsync(p, host, bytes, cudaMemcpyHostToDevice, copies));
  CUDA(cudaEventRecord(e[5], copies));
  CUDA(cudaDeviceSynchronize());
  float *other;
  CUDA(cudaMalloc(&other, bytes));
  cudaEvent_t begin, end;
  CUDA(cudaEventCreate(&begin));
  CUDA(cudaEventCreate(&end));
  CUDA(cudaEventRecord(begin));
  CUDA(cudaMemcpyAsync(other, p, bytes, cudaMemcpyDeviceToDevice));
  CUDA(cudaEventRecord(end));
  CUDA(cudaDeviceSynchronize());
  std::printf("%.2f %.2f %.2f\n", between(e[2], e[3]), between(e[4], e[5]), between(begin, end));
  return passed();
}
