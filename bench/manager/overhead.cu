// SPDX-License-Identifier: Apache-2.0
//
// Repeats one call: overhead launch|copy|small|large|grow CALLS. Prints the seconds of the loop, wall
// time and user + system time of this process. bench/manager/overhead runs it.
#include <sys/resource.h>
#include <sys/time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#define CUDA(call)                                          \
  do {                                                      \
    if (cudaError_t e_ = (call); e_ != cudaSuccess) {       \
      std::fprintf(stderr, "%s\n", cudaGetErrorString(e_)); \
      std::exit(1);                                         \
    }                                                       \
  } while (0)

__global__ void nothing() {}

static double seconds(const timeval &t) { return t.tv_sec + t.tv_usec * 1e-6; }

static double cpu() {
  rusage r;
  getrusage(RUSAGE_SELF, &r);
  return seconds(r.ru_utime) + seconds(r.ru_stime);
}

static void allocate(size_t bytes) {
  void *p;
  CUDA(cudaMalloc(&p, bytes));
  CUDA(cudaFree(p));
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const char *kind = argv[1];
  long calls = std::atol(argv[2]);
  auto is = [kind](const char *name) { return std::strcmp(kind, name) == 0; };
  void *device;
  std::vector<char> host(1 << 20);
  std::vector<void *> pieces;
  CUDA(cudaMalloc(&device, host.size()));
  CUDA(cudaDeviceSynchronize());
  auto begin = std::chrono::steady_clock::now();
  double cpu_begin = cpu();
  for (long i = 0; i < calls; i++) {
    if (is("launch")) nothing<<<1, 1>>>();
    if (is("copy")) CUDA(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice));
    if (is("small")) allocate(4096);
    if (is("large")) allocate(8 << 20);
    if (is("grow")) {
      // Like a framework's memory pool: allocates piece after piece, and frees all of them at the end.
      void *p;
      CUDA(cudaMalloc(&p, 4 << 20));
      pieces.push_back(p);
      if (pieces.size() < 32) continue;
      for (void *q : pieces) CUDA(cudaFree(q));
      pieces.clear();
    }
    if (is("launch") && i % 256 == 255) CUDA(cudaDeviceSynchronize());
  }
  CUDA(cudaDeviceSynchronize());
  std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  std::printf("%.6f %.6f\n", wall.count(), cpu() - cpu_begin);
  return 0;
}
