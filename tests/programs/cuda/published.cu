// SPDX-License-Identifier: Apache-2.0
//
// A block publishes values as vectors, and others read them meanwhile: an aligned vector of 8 or 16
// bytes is never half of one value and half of another. PTX does not promise it, but GPUs do it, and
// scans of CUB rely on it (cub/agent/single_pass_scan_operators.cuh).
#include <cstdint>

#include "check.h"

constexpr unsigned kRounds = 30000, kReaders = 3;

__device__ void store(ulonglong2 *p, uint64_t n) {
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(n), "l"(~n) : "memory");
}
__device__ bool is_whole(ulonglong2 *p) {
  uint64_t a, b;
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory");
  return a == ~b;
}
__device__ void store(uint4 *p, uint64_t n) {
  unsigned v = unsigned(n);
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %1, %2};" ::"l"(p), "r"(v), "r"(~v)
               : "memory");
}
__device__ bool is_whole(uint4 *p) {
  unsigned a, b, c, d;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "l"(p)
               : "memory");
  return a == ~b && a == c && b == d;
}
__device__ void store(uint2 *p, uint64_t n) {
  unsigned v = unsigned(n);
  asm volatile("st.volatile.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v), "r"(~v) : "memory");
}
__device__ bool is_whole(uint2 *p) {
  unsigned a, b;
  asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(p) : "memory");
  return a == ~b;
}

template <class V>
__global__ void clear(V *vectors) {
  store(vectors + threadIdx.x, 0);
}

// Block 0 writes until the first of the other blocks has read often enough, or, where blocks run one
// after the other, to its bound. All lanes use one vector, or each lane one of its own, or only some
// lanes take part.
template <class V>
__global__ void publish(V *vectors, bool same, unsigned lanes, volatile unsigned *ended, unsigned *torn) {
  if (threadIdx.x >= lanes) return;
  V *mine = vectors + (same ? 0 : threadIdx.x);
  if (blockIdx.x == 0) {
    for (uint64_t n = 1; *ended == 0 && n < 20 * kRounds; n++) store(mine, n);
    return;
  }
  for (unsigned i = 0; i < kRounds; i++)
    if (!is_whole(mine)) atomicAdd(torn, 1u);
  *ended = 1;
}

template <class V>
void check(bool same, unsigned lanes) {
  V *vectors;
  unsigned *counts, torn;
  CUDA(cudaMalloc(&vectors, 32 * sizeof(V)));
  clear<<<1, 32>>>(vectors);
  CUDA(cudaMalloc(&counts, 8));
  CUDA(cudaMemset(counts, 0, 8));
  publish<<<1 + kReaders, 32>>>(vectors, same, lanes, counts, counts + 1);
  CUDA(cudaGetLastError());
  CUDA(cudaMemcpy(&torn, counts + 1, 4, cudaMemcpyDeviceToHost));
  if (torn != 0) std::fprintf(stderr, "%zu bytes, same %d, %u lanes: %u torn\n", sizeof(V), same, lanes, torn);
  CHECK(torn == 0);
  CUDA(cudaFree(vectors));
  CUDA(cudaFree(counts));
}

int main() {
  for (bool same : {false, true})
    for (unsigned lanes : {32u, 5u}) {
      check<ulonglong2>(same, lanes);
      check<uint4>(same, lanes);
      check<uint2>(same, lanes);
    }
  return passed();
}
