// SPDX-License-Identifier: Apache-2.0
//
// Lanes that execute a warp-wide instruction at the same moment with different member masks, as
// partitions of a warp do, and barriers with numbers that differ within a warp.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include "check.h"

namespace cg = cooperative_groups;

constexpr int kThreads = 64, kLanes = 32;

// The lanes of the warp for which i % `parts` is that of this lane.
__device__ unsigned partition_of(int i, int parts) { return __match_any_sync(~0u, i % parts); }

__global__ void intrinsics(int *out) {
  int i = threadIdx.x;
  unsigned mask = partition_of(i, 3);
  int *o = out + 6 * i;
  o[0] = __reduce_add_sync(mask, i);
  o[1] = __shfl_sync(mask, i, 31 - __clz(mask));
  o[2] = __popc(__ballot_sync(mask, i & 1));
  o[3] = __all_sync(mask, i % 3 != 1);
  o[4] = __popc(__match_any_sync(mask, i % 2));
  o[5] = __reduce_max_sync(mask, i);
}

__global__ void groups(int *out) {
  auto warp = cg::tiled_partition<kLanes>(cg::this_thread_block());
  int i = threadIdx.x, lane = warp.thread_rank();
  auto labelled = cg::labeled_partition(warp, lane % 5);
  auto odd = cg::binary_partition(warp, lane % 2 == 1);
  auto quarter = cg::tiled_partition<8>(cg::this_thread_block());
  int *o = out + 4 * i;
  o[0] = cg::reduce(labelled, i, cg::plus<int>());
  o[1] = cg::reduce(odd, i, cg::greater<int>());
  o[2] = cg::exclusive_scan(quarter, i, cg::plus<int>());
  o[3] = 0;
  if (lane % 4 != 0) o[3] = cg::reduce(cg::coalesced_threads(), 1, cg::plus<int>());
}

// Threads with i % 2 == 0 pass values by barrier 1, the others by barrier 2.
__global__ void named_barriers(int *out) {
  __shared__ int values[kThreads];
  int i = threadIdx.x, barrier = 1 + i % 2;
  values[i] = i * i;
  asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(kThreads / 2) : "memory");
  out[i] = values[kThreads - 2 - i + 2 * (i % 2)];
}

template <class Value>
int sum(int first, int last, Value value) {
  int total = 0;
  for (int j = first; j < last; ++j) total += value(j);
  return total;
}

int main() {
  std::vector<int> out(6 * kThreads);
  int *to;
  CUDA(cudaMalloc(&to, out.size() * sizeof(int)));
  auto run = [&](auto kernel) {
    kernel<<<1, kThreads>>>(to);
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemcpy(out.data(), to, out.size() * sizeof(int), cudaMemcpyDefault));
  };
  run(intrinsics);
  for (int i = 0; i < kThreads; ++i) {
    int first = i / kLanes * kLanes, last = first + kLanes, top = last - 1;
    while (top % 3 != i % 3) --top;
    auto same = [&](int j) { return j % 3 == i % 3; };
    const int *o = &out[6 * i];
    CHECK(o[0] == sum(first, last, [&](int j) { return same(j) ? j : 0; }));
    CHECK(o[1] == top);
    CHECK(o[2] == sum(first, last, [&](int j) { return same(j) && j % 2; }));
    CHECK(o[3] == (i % 3 != 1));
    CHECK(o[4] == sum(first, last, [&](int j) { return same(j) && j % 2 == i % 2; }));
    CHECK(o[5] == top);
  }
  run(groups);
  for (int i = 0; i < kThreads; ++i) {
    int first = i / kLanes * kLanes, last = first + kLanes, lane = i - first;
    const int *o = &out[4 * i];
    CHECK(o[0] == sum(first, last, [&](int j) { return (j - first) % 5 == lane % 5 ? j : 0; }));
    CHECK(o[1] == (lane % 2 ? last - 1 : last - 2));
    CHECK(o[2] == sum(i / 8 * 8, i, [](int j) { return j; }));
    CHECK(o[3] == (lane % 4 ? 24 : 0));
  }
  run(named_barriers);
  for (int i = 0; i < kThreads; ++i) {
    int from = kThreads - 2 - i + 2 * (i % 2);
    CHECK(out[i] == from * from);
  }
  return passed();
}
