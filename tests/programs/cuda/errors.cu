// SPDX-License-Identifier: Apache-2.0
//
// Each argument selects one error that must be detected.
#include <cassert>
#include <cstring>

#include "check.h"

__global__ void write(int *p, int at) { p[at] = threadIdx.x; }
// One byte behind the dynamic shared memory that was asked for.
__global__ void overrun(int bytes) {
  extern __shared__ char shared[];
  shared[bytes] = 1;
}
__global__ void failing(int n) { assert(n < 3); }
__global__ void trapping() { __trap(); }
__global__ void endless(volatile int *p) {
  while (*p == 0) {
  }
}
__device__ __noinline__ int deep(int n, volatile int *p) { return *p == n ? 0 : deep(n + 1, p) * 3 + deep(n + 2, p); }
__global__ void recursion(int *p) {
  *p = 0;
  *p = deep(1, p);
}
// Two unordered streams write to the same word. Each first waits a while for the other to start.
__global__ void increments(volatile int *p, int n) {
  atomicAdd(const_cast<int *>(p) + 1, 1);
  for (int i = 0; i < n && p[1] < 2; ++i) {}
  for (int i = 0; i < n; ++i) *p = *p + 1;
}
__global__ void fetch(cudaTextureObject_t t, float *out) { *out = tex1D<float>(t, 0.5f); }
__global__ void stuck() {
  if (threadIdx.x < 32) __syncthreads();
  else
    __syncwarp();
  if (threadIdx.x == 0) asm volatile("bar.sync 3, 64;");
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  int *p;
  CUDA(cudaMalloc(&p, 1000 * sizeof(int)));
  if (std::strcmp(what, "host") == 0) {
    *reinterpret_cast<volatile int *>(p) = 1;
  } else if (std::strcmp(what, "bounds") == 0) {
    write<<<1, 1>>>(p, 1 << 20);
    CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    // The error is sticky.
    CHECK(cudaMalloc(&p, 4) == cudaErrorIllegalAddress);
    CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  } else if (std::strcmp(what, "shared") == 0) {
    overrun<<<1, 1, 20>>>(19);
    CUDA(cudaDeviceSynchronize());
    overrun<<<1, 1, 20>>>(20);
    CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  } else if (std::strcmp(what, "pageable") == 0) {
    std::vector<int> host(10);
    write<<<1, 1>>>(host.data(), 0);
    CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  } else if (std::strcmp(what, "misaligned") == 0) {
    write<<<1, 1>>>(reinterpret_cast<int *>(reinterpret_cast<char *>(p) + 1), 0);
    CHECK(cudaDeviceSynchronize() == cudaErrorMisalignedAddress);
  } else if (std::strcmp(what, "assert") == 0) {
    failing<<<1, 1>>>(4);
    CHECK(cudaDeviceSynchronize() == cudaErrorAssert);
  } else if (std::strcmp(what, "trap") == 0) {
    trapping<<<1, 1>>>();
    CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  } else if (std::strcmp(what, "recursion") == 0) {
    recursion<<<1, 1>>>(p);
    CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  } else if (std::strcmp(what, "deadlock") == 0) {
    stuck<<<1, 64>>>();
    CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  } else if (std::strcmp(what, "values") == 0) {
    CHECK(cudaFree(p + 1) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(p, nullptr, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(p + 100000000, p, 4, cudaMemcpyDefault) == cudaErrorInvalidValue);
    write<<<1, 2000>>>(p, 0);
    CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
    write<<<1, 1, 200 << 10>>>(p, 0);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
    cudaGetLastError();
    void *big;
    CHECK(cudaMalloc(&big, size_t(1) << 40) == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(cudaEventQuery(reinterpret_cast<cudaEvent_t>(p)) == cudaErrorInvalidResourceHandle);
    // The context still works.
    write<<<1, 1>>>(p, 3);
    CUDA(cudaDeviceSynchronize());
  } else if (std::strcmp(what, "stale") == 0) {
    // Of an array that has ended.
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
    cudaResourceDesc r{};
    cudaTextureDesc how{};
    cudaTextureObject_t texture;
    CUDA(cudaMallocArray(&r.res.array.array, &f, 4));
    CUDA(cudaCreateTextureObject(&texture, &r, &how, nullptr));
    CUDA(cudaFreeArray(r.res.array.array));
    fetch<<<1, 1>>>(texture, reinterpret_cast<float *>(p));
    CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  } else if (std::strcmp(what, "reset") == 0) {
    // Arrays end with their context.
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CUDA(cudaMallocArray(&array, &f, 4));
    CUDA(cudaDeviceReset());
    float four[4] = {};
    CHECK(cudaMemcpy2DToArray(array, 0, 0, four, 16, 16, 1, cudaMemcpyHostToDevice) == cudaErrorInvalidResourceHandle);
  } else if (std::strcmp(what, "race") == 0) {
    const int n = 1000000;
    cudaStream_t a, b;
    CUDA(cudaStreamCreate(&a));
    CUDA(cudaStreamCreate(&b));
    CUDA(cudaMemset(p, 0, 8));
    CUDA(cudaDeviceSynchronize());
    increments<<<1, 1, 0, a>>>(p, n);
    increments<<<1, 1, 0, b>>>(p, n);
    int value;
    CUDA(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
    std::printf("%d of %d\n", value, 2 * n);
  } else {
    return 2;
  }
  return passed();
}
