// SPDX-License-Identifier: Apache-2.0
//
// A program that shares its device: tenant NAME MIB… allocates one piece of memory after the other,
// writes into each, and finds in the end what it has written. Prints "have MIB" after each, and
// "denied" where there was none; waits before each piece (1, 2, …), and before the end, while there is
// a file NAME-1, NAME-2, …, NAME-end. It makes no call of CUDA then.
#include <unistd.h>

#include <cstring>
#include <string>

#include "check.h"

#ifdef VARIABLE_MIB
__device__ char variable[VARIABLE_MIB << 20];
#endif

#ifdef HEAP
__global__ void heap(int *ok) {
  char *p = static_cast<char *>(malloc(1024));
  *ok = p != nullptr;
  free(p);
}
#endif

constexpr size_t kStride = 64 << 10;

__global__ void mark(char *p, size_t bytes, unsigned seed) {
  size_t at = (blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x) * kStride;
  if (at < bytes) *reinterpret_cast<unsigned *>(p + at) = seed * 2654435761u + at / kStride;
}

__global__ void count(const char *p, size_t bytes, unsigned seed, unsigned *good) {
  size_t at = (blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x) * kStride;
  if (at < bytes && *reinterpret_cast<const unsigned *>(p + at) == seed * 2654435761u + at / kStride)
    atomicAdd(good, 1);
}

static unsigned blocks(size_t bytes) { return (bytes / kStride + 255) / 256; }

static void wait_for_file(const char *name, const std::string &where) {
  std::string file = std::string(name) + "-" + where;
  while (access(file.c_str(), F_OK) == 0) usleep(2000);
}

static void say(const char *what, int mib) {
  std::printf("%s %d\n", what, mib);
  std::fflush(stdout);
}

int main(int argc, char **argv) {
  CHECK(argc > 1);
  CUDA(cudaFree(nullptr));
  say("started", 0);
  std::vector<std::pair<char *, size_t>> all;
  for (int i = 2; i < argc; ++i) {
    wait_for_file(argv[1], std::to_string(i - 1));
    size_t bytes = static_cast<size_t>(std::atoi(argv[i])) << 20;
    char *p;
    cudaError_t e = cudaMalloc(&p, bytes);
    if (e == cudaErrorMemoryAllocation) {
      say("denied", std::atoi(argv[i]));
      continue;
    }
    CUDA(e);
    mark<<<blocks(bytes), 256>>>(p, bytes, i);
    CUDA(cudaDeviceSynchronize());
    all.emplace_back(p, bytes);
    say("have", std::atoi(argv[i]));
  }
#ifdef HEAP
  int *ok, host;
  CUDA(cudaMalloc(&ok, sizeof *ok));
  heap<<<1, 1>>>(ok);
  CUDA(cudaMemcpy(&host, ok, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(host == 1);
#endif
#ifdef VARIABLE_MIB
  char *v;
  CUDA(cudaGetSymbolAddress(reinterpret_cast<void **>(&v), variable));
  mark<<<blocks(VARIABLE_MIB << 20), 256>>>(v, VARIABLE_MIB << 20, 1);
  CUDA(cudaDeviceSynchronize());
  all.emplace_back(v, VARIABLE_MIB << 20);
  say("variable", VARIABLE_MIB);
#endif
  wait_for_file(argv[1], "end");
  unsigned *good, host_good;
  CUDA(cudaMalloc(&good, sizeof *good));
  for (size_t i = 0; i < all.size(); ++i) {
    unsigned seed = 2;
    CUDA(cudaMemset(good, 0, sizeof *good));
    for (host_good = 0; host_good == 0 && seed <= static_cast<unsigned>(argc); ++seed) {
      count<<<blocks(all[i].second), 256>>>(all[i].first, all[i].second, seed == argc ? 1 : seed, good);
      CUDA(cudaMemcpy(&host_good, good, sizeof host_good, cudaMemcpyDeviceToHost));
    }
    CHECK(host_good == all[i].second / kStride);
  }
  return passed();
}
