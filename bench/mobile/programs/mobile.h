// SPDX-License-Identifier: Apache-2.0
//
// What the paper's programs (papers.md §1.9) have in common here. Each is started as
//
//   PROGRAM MIB ROUNDS
//
// holds MIB of device memory for all its time, works on a part of it in each round, so that its
// time is a matter of ROUNDS and not of MIB, and checks all that it has computed. "PASSED" is its
// last line. A request for memory that is denied ends it, as it would end the paper's.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

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

struct Size {
  size_t bytes;
  int rounds;
};

inline Size size_of(int argc, char **argv) {
  CHECK(argc == 3);
  Size s{static_cast<size_t>(std::atol(argv[1])) << 20, std::atoi(argv[2])};
  CHECK(s.bytes > 0 && s.rounds > 0);
  return s;
}

inline int passed() {
  std::puts("PASSED");
  return 0;
}

// A vector's elements, and the part of it that a round works on: another one in each.
constexpr size_t kPart = 64 << 10;
inline size_t part_of(int round, size_t n) { return n <= kPart ? 0 : round * kPart % (n - kPart); }
inline size_t part_size(size_t n) { return n < kPart ? n : kPart; }

// c = a + b, for pcie, bandWidth, devmem and map.
__global__ void add(const int *a, const int *b, int *c, size_t n) {
  size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
inline void add_part(const int *a, const int *b, int *c, size_t n) {
  add<<<(n + 255) / 256, 256>>>(a, b, c, n);
  CUDA(cudaGetLastError());
}
