// SPDX-License-Identifier: Apache-2.0
//
// mobile.h for CUDA programs.
#pragma once

#include <cuda_runtime.h>

#include "mobile.h"

#define CUDA(call)                                                         \
  do {                                                                     \
    cudaError_t error_ = (call);                                           \
    if (error_ != cudaSuccess)                                             \
      mobile::fail(__FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
  } while (0)

namespace mobile {

// Steps that are submitted before the host waits for them.
constexpr size_t kMaxSubmitted = 8;

template <class T>
T *allocate(size_t bytes) {
  void *p = nullptr;
  CUDA(cudaMalloc(&p, bytes));
  return static_cast<T *>(p);
}

// Memory that the program has but does not use.
inline void allocate_rest(const Options &o) {
  if (rest_bytes(o) > 0) allocate<char>(rest_bytes(o));
}

// After each step: limits how far the host is ahead of the device.
inline void stepped(const Options &o, size_t step) {
  CUDA(cudaGetLastError());
  if (step % kMaxSubmitted == kMaxSubmitted - 1 || o.gap > 0 || step + 1 == o.steps)
    CUDA(cudaDeviceSynchronize());
  host_works(o.gap);
}

constexpr unsigned kThreads = 256;
inline unsigned blocks(size_t elements) {
  return static_cast<unsigned>((elements + kThreads - 1) / kThreads);
}

}  // namespace mobile
