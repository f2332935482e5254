// SPDX-License-Identifier: Apache-2.0
//
// Does the driver's checkpoint keep the heap of the device, from which kernels allocate?
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include <cuda_runtime.h>

__device__ int *kept;
__global__ void allocate() {
  kept = static_cast<int *>(malloc(4096));
  if (kept != nullptr) kept[7] = 4711;
}
__global__ void read(int *out) { *out = kept == nullptr ? -1 : kept[7]; }

template <class... A>
static bool call(const char *name, A... a) {
  auto f = reinterpret_cast<CUresult (*)(A...)>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
  CUresult e = f == nullptr ? CUDA_ERROR_NOT_FOUND : f(a...);
  if (e != CUDA_SUCCESS) std::printf("%s: CUDA error %d\n", name, e);
  return e == CUDA_SUCCESS;
}

int main() {
  int *out = nullptr, value = 0;
  if (cudaMalloc(&out, sizeof *out) != cudaSuccess) return std::puts("no CUDA device"), 77;
  allocate<<<1, 1>>>();
  if (cudaDeviceSynchronize() != cudaSuccess) return std::puts("the kernel has failed"), 1;
  void *none = nullptr;
  for (const char *step : {"Lock", "Checkpoint", "Restore", "Unlock"})
    if (!call((std::string("cuCheckpointProcess") + step).c_str(), getpid(), none)) return 1;
  read<<<1, 1>>>(out);
  cudaMemcpy(&value, out, sizeof value, cudaMemcpyDeviceToHost);
  std::printf(value == 4711 ? "kept\n" : "it holds %d instead of 4711\n", value);
  return value == 4711 ? 0 : 1;
}
