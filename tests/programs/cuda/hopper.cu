// SPDX-License-Identifier: Apache-2.0
//
// Features of sm_90, used without libraries: clusters of blocks that access each other's shared
// memory, 128-bit atomics, atomics on vectors, 8-bit floats, barriers in shared memory.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstring>

#include "check.h"

namespace cg = cooperative_groups;

constexpr int kThreads = 64;

// Every block reads the memory of the next block, and adds to the counter of the first block.
__global__ void neighbours(int *out, int *totals) {
  __shared__ int mine[kThreads];
  __shared__ int counter;
  cg::cluster_group cluster = cg::this_cluster();
  unsigned rank = cluster.block_rank(), blocks = cluster.num_blocks();
  mine[threadIdx.x] = static_cast<int>(blockIdx.x * 1000 + threadIdx.x);
  if (threadIdx.x == 0) counter = 0;
  cluster.sync();
  int *next = cluster.map_shared_rank(mine, (rank + 1) % blocks);
  out[blockIdx.x * kThreads + threadIdx.x] = next[threadIdx.x];
  atomicAdd(cluster.map_shared_rank(&counter, 0), 1);
  cluster.sync();
  if (rank == 0 && threadIdx.x == 0) totals[blockIdx.x / blocks] = counter;
}

__global__ void __cluster_dims__(2, 1, 1) declared(int *out) {
  if (threadIdx.x == 0) out[blockIdx.x] = static_cast<int>(cg::this_cluster().block_rank());
}

struct alignas(16) Wide {
  long long low, high;
};

// A reader always sees both halves change together.
__global__ void wide(Wide *shared_by_all, int *torn, int rounds) {
  for (int k = 0; k < rounds; ++k) {
    long long v = blockIdx.x * 100000ll + k;
    long long low, high;
    asm volatile(
        "{ .reg .b128 a, b; mov.b128 a, {%2, %3}; atom.global.exch.b128 b, [%4], a; mov.b128 {%0, %1}, b; }"
        : "=l"(low), "=l"(high)
        : "l"(v), "l"(~v), "l"(shared_by_all)
        : "memory");
    if (low != ~high) atomicAdd(torn, 1);
    asm volatile("{ .reg .b128 a; ld.relaxed.gpu.global.b128 a, [%2]; mov.b128 {%0, %1}, a; }"
                 : "=l"(low), "=l"(high)
                 : "l"(shared_by_all)
                 : "memory");
    if (low != ~high) atomicAdd(torn, 1);
  }
}

// Each element is added to separately, so the elements of a pair may be from different times (CUDA
// C++ Programming Guide, "atomicAdd()").
__global__ void vectors(float4 *sum, float2 *pair) {
  atomicAdd(sum, float4{1, 2, 3, 4});
  float2 old = atomicAdd(pair, float2{1, -1});
  if (old.x < 0 || old.x > 255 || old.y > 0 || old.y < -255) __trap();
}

__global__ void eight_bits(const float *in, float *out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    out[2 * i] = static_cast<float>(__nv_fp8_e4m3(in[i]));
    out[2 * i + 1] = static_cast<float>(__nv_fp8_e5m2(in[i]));
  }
}

// A barrier in PTX: the first lane of each warp arrives for the warp.
__global__ void barrier(int *out) {
  __shared__ unsigned long long object;
  __shared__ int values[kThreads];
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&object));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(blockDim.x / 32));
  __syncthreads();
  for (int k = 0; k < 4; ++k) {
    values[threadIdx.x] = static_cast<int>(threadIdx.x) * k;
    __syncwarp();
    if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
    int done = 0;
    while (!done)
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(at), "r"(k & 1)
          : "memory");
    out[k * kThreads + threadIdx.x] = values[kThreads - 1 - threadIdx.x];
    __syncthreads();
  }
}

static void clusters() {
  const int blocks = 8;
  int *out, *totals;
  CUDA(cudaMallocManaged(&out, blocks * kThreads * sizeof(int)));
  CUDA(cudaMallocManaged(&totals, blocks * sizeof(int)));
  for (unsigned size : {1u, 2u, 4u, 8u}) {
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = kThreads;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = size;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CUDA(cudaLaunchKernelEx(&config, neighbours, out, totals));
    CUDA(cudaDeviceSynchronize());
    for (int b = 0; b < blocks; ++b) {
      int first = b / static_cast<int>(size) * static_cast<int>(size);
      int next = first + (b - first + 1) % static_cast<int>(size);
      for (int t = 0; t < kThreads; ++t) CHECK(out[b * kThreads + t] == next * 1000 + t);
    }
    for (unsigned c = 0; c < blocks / size; ++c) CHECK(totals[c] == static_cast<int>(size) * kThreads);
    attribute.val.clusterDim.x = 16;
    CHECK(cudaLaunchKernelEx(&config, neighbours, out, totals) != cudaSuccess);
    (void)cudaGetLastError();
  }
  declared<<<4, 32>>>(out);
  CUDA(cudaDeviceSynchronize());
  for (int b = 0; b < 4; ++b) CHECK(out[b] == b % 2);
}

static void atomics() {
  Wide *w;
  int *torn;
  float *sums;
  CUDA(cudaMallocManaged(&w, sizeof *w));
  CUDA(cudaMallocManaged(&torn, sizeof *torn));
  CUDA(cudaMallocManaged(&sums, 32));
  *w = {0, -1};
  *torn = 0;
  wide<<<8, 1>>>(w, torn, 2000);
  CUDA(cudaDeviceSynchronize());
  CHECK(*torn == 0 && w->low == ~w->high);
  std::memset(sums, 0, 32);
  vectors<<<4, 64>>>(reinterpret_cast<float4 *>(sums), reinterpret_cast<float2 *>(sums + 4));
  CUDA(cudaDeviceSynchronize());
  const float expected[] = {256, 512, 768, 1024, 256, -256};
  for (int i = 0; i < 6; ++i) CHECK(sums[i] == expected[i]);
}

// The same conversions by the host code of the header.
static void small_floats() {
  const int n = 4096;
  float *in, *out;
  CUDA(cudaMallocManaged(&in, n * sizeof(float)));
  CUDA(cudaMallocManaged(&out, 2 * n * sizeof(float)));
  for (int i = 0; i < n; ++i) {
    unsigned bits = static_cast<unsigned>(i) * 1048583u + 77;
    std::memcpy(&in[i], &bits, 4);
    if (i % 2) in[i] = std::ldexp(static_cast<float>(i % 97 - 48) / 32, i % 24 - 12);
  }
  eight_bits<<<1, 128>>>(in, out, n);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) {
    float a = static_cast<float>(__nv_fp8_e4m3(in[i])), b = static_cast<float>(__nv_fp8_e5m2(in[i]));
    CHECK(out[2 * i] == a || (a != a && out[2 * i] != out[2 * i]));
    CHECK(out[2 * i + 1] == b || (b != b && out[2 * i + 1] != out[2 * i + 1]));
  }
}

int main() {
  clusters();
  atomics();
  small_floats();
  int *out;
  CUDA(cudaMallocManaged(&out, 4 * kThreads * sizeof(int)));
  barrier<<<1, kThreads>>>(out);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 4 * kThreads; ++i) CHECK(out[i] == (kThreads - 1 - i % kThreads) * (i / kThreads));
  return passed();
}
