// SPDX-License-Identifier: Apache-2.0
//
// A barrier across the grid that is made by hand: it needs all blocks on the device at once, as no
// program may assume without a cooperative launch, and as some do. Prints how long each launch took.
// barrier_by_hand [graph|managed|mapped]: the launches are those of one graph; the counter and the
// result are in managed memory, or in memory of the host.
#include <chrono>
#include <cstring>

#include "check.h"

__global__ void barrier(volatile unsigned *count, int *out, unsigned round) {
  if (threadIdx.x != 0) return;
  atomicAdd(const_cast<unsigned *>(count), 1);
  while (*count < gridDim.x * round) {
  }
  out[blockIdx.x] += round;
}

void run_in_graph(volatile unsigned *count, int *out, int blocks) {
  cudaStream_t s;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA(cudaStreamCreate(&s));
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  for (unsigned round = 1; round <= 3; ++round) barrier<<<blocks, 32, 0, s>>>(count, out, round);
  CUDA(cudaStreamEndCapture(s, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphLaunch(exec, s));
  CUDA(cudaStreamSynchronize(s));
}

template <class T>
cudaError_t allocate(const char *kind, T **to, size_t size) {
  if (std::strcmp(kind, "managed") == 0) return cudaMallocManaged(to, size);
  return std::strcmp(kind, "mapped") == 0 ? cudaMallocHost(to, size) : cudaMalloc(to, size);
}

int main(int argc, char **argv) {
  const int blocks = 2;  // as many as the software device can run at once
  const char *kind = argc > 1 ? argv[1] : "";
  const bool in_graph = std::strcmp(kind, "graph") == 0;
  unsigned *count;
  int *out;
  CUDA(allocate(kind, &count, sizeof(unsigned)));
  CUDA(allocate(kind, &out, blocks * sizeof(int)));
  CUDA(cudaMemset(count, 0, sizeof(unsigned)));
  CUDA(cudaMemset(out, 0, blocks * sizeof(int)));
  CUDA(cudaDeviceSynchronize());
  if (in_graph) run_in_graph(count, out, blocks);
  for (unsigned round = 1; !in_graph && round <= 3; ++round) {
    auto begin = std::chrono::steady_clock::now();
    barrier<<<blocks, 32>>>(count, out, round);
    CUDA(cudaDeviceSynchronize());
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    printf("round %u %.3f s\n", round, taken.count());
  }
  int host[blocks];
  CUDA(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  for (int v : host) CHECK(v == 6);
  return passed();
}
