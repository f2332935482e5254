// SPDX-License-Identifier: Apache-2.0
//
// tenant NAME MIB…: a program that shares its device. Allocates pieces of memory of these sizes,
// writes a word of its own into every 4 KiB of each, and finally checks them all. Prints "have MIB"
// after each allocation, or "denied" if it failed. Before piece N, and before the end, it waits
// without CUDA calls while the file NAME-N, or NAME-end, exists.
#include <cuda.h>
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

constexpr size_t kStride = 4 << 10;

__global__ void mark(char *p, size_t bytes, unsigned seed) {
  size_t at = (blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x) * kStride;
  if (at < bytes) *reinterpret_cast<unsigned *>(p + at) = seed * 2654435761u + at / kStride;
}

__global__ void count(const char *p, size_t bytes, unsigned seed, unsigned *good) {
  size_t at = (blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x) * kStride;
  if (at < bytes &&
      *reinterpret_cast<const unsigned *>(p + at) == seed * 2654435761u + at / kStride)
    atomicAdd(good, 1);
}

struct Piece {
  char *at;
  size_t bytes;
  unsigned seed;
};

static unsigned blocks(size_t bytes) { return (bytes / kStride + 255) / 256; }

static void wait_for_file(const char *name, const std::string &where) {
  std::string file = std::string(name) + "-" + where;
  while (access(file.c_str(), F_OK) == 0) usleep(2000);
}

static void say(const char *what, int mib) {
  std::printf("%s %d\n", what, mib);
  std::fflush(stdout);
}

static Piece written(char *at, size_t bytes, unsigned seed) {
  mark<<<blocks(bytes), 256>>>(at, bytes, seed);
  CUDA(cudaDeviceSynchronize());
  return {at, bytes, seed};
}

static void find(const Piece &p, unsigned *good) {
  unsigned host;
  CUDA(cudaMemset(good, 0, sizeof *good));
  count<<<blocks(p.bytes), 256>>>(p.at, p.bytes, p.seed, good);
  CUDA(cudaMemcpy(&host, good, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(host == p.bytes / kStride);
}

// -DPOOL: from the default pool. -DVMM: physical memory, mapped to addresses of the program.
static cudaError_t allocate(char **p, size_t bytes) {
#if defined POOL
  return cudaMallocAsync(reinterpret_cast<void **>(p), bytes, 0);
#elif defined VMM
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle handle;
  CUdeviceptr at;
  CHECK(cuMemAddressReserve(&at, bytes, 0, 0, 0) == CUDA_SUCCESS);
  if (cuMemCreate(&handle, bytes, &prop, 0) != CUDA_SUCCESS) return cudaErrorMemoryAllocation;
  CHECK(cuMemMap(at, bytes, 0, handle, 0) == CUDA_SUCCESS);
  CHECK(cuMemSetAccess(at, bytes, &access, 1) == CUDA_SUCCESS);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
  *p = reinterpret_cast<char *>(at);
  return cudaSuccess;
#else
  return cudaMalloc(p, bytes);
#endif
}

int main(int argc, char **argv) {
  CHECK(argc > 1);
  CUDA(cudaFree(nullptr));
#ifdef MANAGED
  int *managed;
  CUDA(cudaMallocManaged(&managed, sizeof *managed));
#endif
  say("started", 0);
  std::vector<Piece> all;
  for (int i = 2; i < argc; ++i) {
    wait_for_file(argv[1], std::to_string(i - 1));
    size_t bytes = static_cast<size_t>(std::atoi(argv[i])) << 20;
    char *p;
    cudaError_t e = allocate(&p, bytes);
    if (e == cudaErrorMemoryAllocation) {
      say("denied", std::atoi(argv[i]));
      continue;
    }
    CUDA(e);
    all.push_back(written(p, bytes, i));
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
  all.push_back(written(v, VARIABLE_MIB << 20, 1));
  say("variable", VARIABLE_MIB);
#endif
  wait_for_file(argv[1], "end");
  unsigned *good;
  CUDA(cudaMalloc(&good, sizeof *good));
  for (const Piece &p : all) find(p, good);
  return passed();
}
