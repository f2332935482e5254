// SPDX-License-Identifier: Apache-2.0
//
// overhead launch|copy|small|large|grow CALLS: repeats one kind of call and prints the seconds of the
// loop: wall time, and user and system time of this process. bench/manager/overhead runs it.
#include <sys/resource.h>
#include <sys/time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
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

// Allocated for all kinds of calls: small allocations share its physical memory.
static void *buffer;
constexpr size_t kBufferBytes = 1 << 20;

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

// The i-th call of each kind.

static void launch(long i) {
  nothing<<<1, 1>>>();
  if (i % 256 == 255) CUDA(cudaDeviceSynchronize());
}

static void copy(long) {
  static std::vector<char> host(kBufferBytes);
  CUDA(cudaMemcpy(buffer, host.data(), host.size(), cudaMemcpyHostToDevice));
}

static void small(long) { allocate(4096); }
static void large(long) { allocate(8 << 20); }

// Like the pool of a framework: allocates piece after piece, and frees all of them together.
static void grow(long) {
  static std::vector<void *> pieces;
  void *p;
  CUDA(cudaMalloc(&p, 4 << 20));
  pieces.push_back(p);
  if (pieces.size() < 32) return;
  for (void *piece : pieces) CUDA(cudaFree(piece));
  pieces.clear();
}

int main(int argc, char **argv) {
  const std::map<std::string, void (*)(long)> kinds{
      {"launch", launch}, {"copy", copy}, {"small", small}, {"large", large}, {"grow", grow}};
  auto kind = kinds.find(argc > 1 ? argv[1] : "");
  if (argc != 3 || kind == kinds.end()) {
    std::fprintf(stderr, "usage: overhead launch|copy|small|large|grow CALLS\n");
    return 2;
  }
  long calls = std::atol(argv[2]);
  CUDA(cudaMalloc(&buffer, kBufferBytes));
  CUDA(cudaDeviceSynchronize());
  auto begin = std::chrono::steady_clock::now();
  double cpu_begin = cpu();
  for (long i = 0; i < calls; i++) kind->second(i);
  CUDA(cudaDeviceSynchronize());
  std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  std::printf("%.6f %.6f\n", wall.count(), cpu() - cpu_begin);
  return 0;
}
