// SPDX-License-Identifier: Apache-2.0
//
// taken: tries to take away what the driver's cuMemAlloc and pools have given, by calls that are
// for the program's own mappings, and prints their errors in one line. Waits while the file "pause"
// exists, and prints "same" if the memory holds what was written before.
#include <cuda.h>
#include <unistd.h>

#include <vector>

#include "check.h"

constexpr size_t kBytes = 4 << 20;

static std::vector<unsigned> pattern(unsigned seed) {
  std::vector<unsigned> all(kBytes / sizeof(unsigned));
  for (size_t i = 0; i < all.size(); ++i) all[i] = seed * 0x9e3779b9u ^ unsigned(i * 2654435761u);
  return all;
}

static void try_to_take(CUdeviceptr at) {
  CUmemAccessDesc none{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, kBytes, &prop, 0) == CUDA_SUCCESS);
  std::printf(" %d", cuMemSetAccess(at, kBytes, &none, 1));
  std::printf(" %d", cuMemMap(at, kBytes, 0, handle, 0));
  std::printf(" %d", cuMemUnmap(at, kBytes));
  std::printf(" %d", cuMemAddressFree(at, kBytes));
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
}

static bool holds(const void *device, unsigned seed) {
  std::vector<unsigned> back(kBytes / sizeof(unsigned));
  CUDA(cudaMemcpy(back.data(), device, kBytes, cudaMemcpyDeviceToHost));
  return back == pattern(seed);
}

int main() {
  void *plain, *pooled;
  CUDA(cudaMalloc(&plain, kBytes));
  CUDA(cudaMallocAsync(&pooled, kBytes, nullptr));
  CUDA(cudaStreamSynchronize(nullptr));
  CUDA(cudaMemcpy(plain, pattern(1).data(), kBytes, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(pooled, pattern(2).data(), kBytes, cudaMemcpyHostToDevice));
  std::printf("errors");
  try_to_take(reinterpret_cast<CUdeviceptr>(plain));
  try_to_take(reinterpret_cast<CUdeviceptr>(pooled));
  std::puts("");
  std::fflush(stdout);
  while (access("pause", F_OK) == 0) usleep(1000);
  bool same = holds(plain, 1) && holds(pooled, 2);
  std::puts(same ? "same" : "different");
  return same ? 0 : 1;
}
