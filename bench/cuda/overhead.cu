// SPDX-License-Identifier: Apache-2.0
//
// What launches, small copies, queries and allocations cost. Prints nanoseconds per call, the least of
// several rounds. bench/cuda/run runs it with and without ckpt-run.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

__global__ void nothing() {}

template <class F>
static double nanoseconds(int calls, F call) {
  double least = 1e18;
  for (int round = 0; round < 7; ++round) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    auto end = std::chrono::steady_clock::now();
    cudaDeviceSynchronize();
    double t = std::chrono::duration<double, std::nano>(end - begin).count() / calls;
    least = t < least ? t : least;
  }
  return least;
}

int main(int argc, char **argv) {
  int calls = argc > 1 ? std::atoi(argv[1]) : 2000;
  void *p = nullptr;
  char host[64] = {};
  size_t free_bytes, total;
  if (cudaError_t e = cudaMalloc(&p, 1 << 20); e != cudaSuccess) {
    std::fprintf(stderr, "overhead: no device memory: %s\n", cudaGetErrorString(e));
    return 1;
  }
  double launch = nanoseconds(calls, [] { nothing<<<1, 1>>>(); });
  double copy =
      nanoseconds(calls, [&] { cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice); });
  double query = nanoseconds(calls, [] { cudaStreamQuery(nullptr); });
  double info = nanoseconds(calls, [&] { cudaMemGetInfo(&free_bytes, &total); });
  double small = nanoseconds(calls, [] {
    void *q = nullptr;
    cudaMalloc(&q, 4096);
    cudaFree(q);
  });
  double large = nanoseconds(calls / 10, [] {
    void *q = nullptr;
    cudaMalloc(&q, 8 << 20);
    cudaFree(q);
  });
  std::printf("launch %.0f  copy %.0f  query %.0f  info %.0f  malloc+free of 4 KiB %.0f, of 8 MiB %.0f  (ns)\n",
              launch, copy, query, info, small, large);
  return 0;
}
