// SPDX-License-Identifier: Apache-2.0
//
// For programs that check themselves: CHECK and CUDA print the line that failed and exit; passed()
// is the last call.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (0)

#define CUDA(call)                                                       \
  do {                                                                   \
    cudaError_t error_ = (call);                                         \
    if (error_ != cudaSuccess) {                                         \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                   cudaGetErrorString(error_));                          \
      std::exit(1);                                                      \
    }                                                                    \
  } while (0)

inline int passed() {
  std::puts("PASSED");
  return 0;
}
