// SPDX-License-Identifier: Apache-2.0
//
// For the test programs of graphs: kernels that show in which order they ran, and short names.
#pragma once

#include <cuda.h>

#include "check.h"

#define OK(call)                                                                       \
  do {                                                                                 \
    CUresult error_ = (call);                                                          \
    if (error_ != CUDA_SUCCESS) {                                                      \
      std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, (int)error_); \
      std::exit(1);                                                                    \
    }                                                                                  \
  } while (0)
#define SAY(call) std::printf("%s: %d\n", #call, static_cast<int>(call))

// Not commutative, so that the order of kernels shows.
__global__ void apply(int *p, int n, int times, int plus) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = p[i] * times + plus;
}
__global__ void join(int *to, const int *a, const int *b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = a[i] * 1000 + b[i];
}

constexpr int kN = 64;
constexpr size_t kBytes = kN * sizeof(int);

static int *new_ints(int value) {
  int *p;
  std::vector<int> all(kN, value);
  CUDA(cudaMalloc(&p, kBytes));
  CUDA(cudaMemcpy(p, all.data(), kBytes, cudaMemcpyHostToDevice));
  return p;
}
static int first_of(const int *p) {
  std::vector<int> all(kN);
  CUDA(cudaMemcpy(all.data(), p, kBytes, cudaMemcpyDeviceToHost));
  for (int x : all) CHECK(x == all[0]);
  return all[0];
}
static cudaStream_t new_stream() {
  cudaStream_t s;
  CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  return s;
}

static CUfunction function_of(const void *kernel) {
  cudaKernel_t k;
  CUfunction f;
  CUDA(cudaGetKernel(&k, kernel));
  OK(cuKernelGetFunction(&f, reinterpret_cast<CUkernel>(k)));
  return f;
}

// Parameters of a node that computes p = p * times + plus.
struct Apply {
  int *p, n = kN, times, plus;
  void *args[4] = {&p, &n, &times, &plus};
  Apply(int *p, int times, int plus) : p(p), times(times), plus(plus) {}
  CUDA_KERNEL_NODE_PARAMS driver() {
    CUDA_KERNEL_NODE_PARAMS k{};
    k.func = function_of(reinterpret_cast<const void *>(apply));
    k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimY = k.blockDimZ = 1;
    k.blockDimX = kN;
    k.kernelParams = args;
    return k;
  }
  cudaKernelNodeParams runtime() {
    cudaKernelNodeParams k{};
    k.func = reinterpret_cast<void *>(apply);
    k.gridDim = 1;
    k.blockDim = kN;
    k.kernelParams = args;
    return k;
  }
};

static cudaGraphExec_t executable(cudaGraph_t g) {
  cudaGraphExec_t e;
  CUDA(cudaGraphInstantiate(&e, g, 0));
  return e;
}
static void launch(cudaGraphExec_t e, cudaStream_t s, int times = 1) {
  for (int i = 0; i < times; i++) CUDA(cudaGraphLaunch(e, s));
  CUDA(cudaStreamSynchronize(s));
}

static cudaGraph_t record_steps(cudaStream_t s, int *p, int steps, int plus) {
  cudaGraph_t g;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < steps; i++) apply<<<1, kN, 0, s>>>(p, kN, 3, plus + i);
  CUDA(cudaStreamEndCapture(s, &g));
  return g;
}
