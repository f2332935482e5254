// SPDX-License-Identifier: Apache-2.0
//
// Barriers in shared memory, pipelines and asynchronous copies, as libcu++ and cooperative groups
// implement them for sm_90: arrivals and phases, copies by threads, bulk copies that signal a
// barrier.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>

#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>

#include "check.h"

namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

constexpr int kThreads = 128;

// In each phase, every thread reads what its neighbour wrote in the phase before.
__global__ void phases(int *out) {
  __shared__ Barrier barrier;
  __shared__ int values[2][kThreads];
  if (threadIdx.x == 0) init(&barrier, kThreads);
  __syncthreads();
  values[0][threadIdx.x] = threadIdx.x;
  for (int k = 0; k < 5; ++k) {
    Barrier::arrival_token token = barrier.arrive();
    barrier.wait(std::move(token));
    values[k & 1 ^ 1][threadIdx.x] = values[k & 1][(threadIdx.x + 1) % kThreads];
  }
  barrier.arrive_and_wait();
  out[threadIdx.x] = values[1][threadIdx.x];
}

// Half of the threads exit; the others continue without them.
__global__ void dropped(int *out) {
  __shared__ Barrier barrier;
  if (threadIdx.x == 0) init(&barrier, kThreads);
  __syncthreads();
  if (threadIdx.x % 2 == 0) {
    barrier.arrive_and_drop();
    return;
  }
  for (int k = 0; k < 3; ++k) barrier.arrive_and_wait();
  out[threadIdx.x] = 1;
}

__global__ void copied(int *out, const int *in) {
  __shared__ Barrier barrier;
  __shared__ alignas(16) int tile[kThreads];
  cg::thread_block block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&barrier, kThreads);
  block.sync();
  cuda::memcpy_async(block, tile, in, cuda::aligned_size_t<16>(sizeof tile), barrier);
  barrier.arrive_and_wait();
  out[threadIdx.x] = tile[kThreads - 1 - threadIdx.x];
}

__global__ void pipelined(int *out, const int *in, int tiles) {
  constexpr int kStages = 2;
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  __shared__ alignas(16) int tile[kStages][kThreads];
  cg::thread_block block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  auto fetch = [&](int k) {
    pipeline.producer_acquire();
    cuda::memcpy_async(block, tile[k % kStages], in + k * kThreads, sizeof tile[0], pipeline);
    pipeline.producer_commit();
  };
  fetch(0);
  for (int k = 0; k < tiles; ++k) {
    if (k + 1 < tiles) fetch(k + 1);
    pipeline.consumer_wait();
    out[k * kThreads + threadIdx.x] = 2 * tile[k % kStages][kThreads - 1 - threadIdx.x];
    pipeline.consumer_release();
  }
}

__global__ void bulk(int *out, const int *in) {
  __shared__ Barrier barrier;
  __shared__ alignas(128) int tile[kThreads];
  if (threadIdx.x == 0) init(&barrier, kThreads);
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::memcpy_async_tx(tile, in, cuda::aligned_size_t<16>(sizeof tile), barrier);
    token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof tile);
  } else {
    token = barrier.arrive();
  }
  barrier.wait(std::move(token));
  tile[threadIdx.x] += 1;
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, out, tile, sizeof tile);
    cuda::ptx::cp_async_bulk_commit_group();
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
  }
}

int main() {
  const int tiles = 7;
  std::vector<int> in(tiles * kThreads), out(tiles * kThreads);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i * i % 1000);
  int *from, *to;
  CUDA(cudaMalloc(&from, in.size() * sizeof(int)));
  CUDA(cudaMalloc(&to, in.size() * sizeof(int)));
  CUDA(cudaMemcpy(from, in.data(), in.size() * sizeof(int), cudaMemcpyDefault));
  auto run = [&](auto launch) {
    CUDA(cudaMemset(to, 0, out.size() * sizeof(int)));
    launch();
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemcpy(out.data(), to, out.size() * sizeof(int), cudaMemcpyDefault));
  };
  run([&] { phases<<<1, kThreads>>>(to); });
  for (int i = 0; i < kThreads; ++i) CHECK(out[i] == (i + 5) % kThreads);
  run([&] { dropped<<<1, kThreads>>>(to); });
  for (int i = 0; i < kThreads; ++i) CHECK(out[i] == i % 2);
  run([&] { copied<<<1, kThreads>>>(to, from); });
  for (int i = 0; i < kThreads; ++i) CHECK(out[i] == in[kThreads - 1 - i]);
  run([&] { pipelined<<<1, kThreads>>>(to, from, tiles); });
  for (int i = 0; i < tiles * kThreads; ++i)
    CHECK(out[i] == 2 * in[i / kThreads * kThreads + kThreads - 1 - i % kThreads]);
  run([&] { bulk<<<1, kThreads>>>(to, from); });
  for (int i = 0; i < kThreads; ++i) CHECK(out[i] == in[i] + 1);
  return passed();
}
