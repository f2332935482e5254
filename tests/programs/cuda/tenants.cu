// SPDX-License-Identifier: Apache-2.0
//
// tenants THREADS ROUNDS MIB SEED: threads that share a device with each other and with other
// programs. Each thread allocates up to MIB, writes, computes, checks the results, and frees; small
// and large allocations alternate.
#include <atomic>
#include <random>
#include <thread>

#include "check.h"

__global__ void fill(unsigned *p, size_t n, unsigned seed) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] = seed + i;
}

__global__ void count(const unsigned *p, size_t n, unsigned seed, unsigned *good) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    if (p[i] == seed + i) atomicAdd(good, 1);
}

static void work(int rounds, int mib, unsigned seed) {
  std::mt19937 random(seed);
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  for (int r = 0; r < rounds; ++r) {
    size_t bytes = (1 + random() % mib) * (1u << 20);
    // Checking both ends is enough, and fast.
    size_t n = 4096;
    unsigned *p, *good, host = 0;
    CUDA(cudaMalloc(&good, sizeof *good));
    CUDA(cudaMalloc(&p, bytes));
    CUDA(cudaMemsetAsync(good, 0, sizeof *good, stream));
    for (unsigned *at : {p, p + bytes / sizeof *p - n})
      fill<<<4, 128, 0, stream>>>(at, n, seed + r);
    CUDA(cudaStreamSynchronize(stream));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 8));
    for (unsigned *at : {p, p + bytes / sizeof *p - n})
      count<<<4, 128, 0, stream>>>(at, n, seed + r, good);
    CUDA(cudaMemcpyAsync(&host, good, sizeof host, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    CHECK(host == 2 * n);
    CUDA(cudaFree(p));
    CUDA(cudaFree(good));
  }
  CUDA(cudaStreamDestroy(stream));
}

int main(int argc, char **argv) {
  CHECK(argc == 5);
  std::vector<std::thread> threads;
  for (int i = 0; i < std::atoi(argv[1]); ++i)
    threads.emplace_back(work, std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]) * 1000 + i);
  for (std::thread &t : threads) t.join();
  return passed();
}
