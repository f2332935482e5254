// SPDX-License-Identifier: Apache-2.0
//
// One kernel that takes long: long_kernel [BLOCKS [LAUNCHES [ROUNDS [graph]]]]. Prints a line before the
// launches, the time of all of them, and a hash of the result. With "graph", the launches are those of one
// graph.
#include <chrono>
#include <cstring>

#include "check.h"

__global__ void mix(unsigned *out, int rounds) {
  unsigned x = blockIdx.x * blockDim.x + threadIdx.x + 1;
  for (int i = 0; i < rounds; ++i) x = x * 1664525u + 1013904223u + (x >> 7);
  out[blockIdx.x * blockDim.x + threadIdx.x] += x;
}

// A graph of `launches` kernels.
cudaGraphExec_t graph_of(unsigned *out, int blocks, int launches, int rounds) {
  cudaStream_t s;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA(cudaStreamCreate(&s));
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < launches; ++i) mix<<<blocks, 32, 0, s>>>(out, rounds);
  CUDA(cudaStreamEndCapture(s, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphDestroy(graph));
  CUDA(cudaStreamDestroy(s));
  return exec;
}

int main(int argc, char **argv) {
  const int blocks = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int launches = argc > 2 ? std::atoi(argv[2]) : 1;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5000;
  const int threads = 32, n = blocks * threads;
  unsigned *out;
  CUDA(cudaMalloc(&out, n * sizeof(unsigned)));
  CUDA(cudaMemset(out, 0, n * sizeof(unsigned)));
  mix<<<1, threads>>>(out, 1);  // loads the code
  CUDA(cudaDeviceSynchronize());
  const bool in_graph = argc > 4 && std::strcmp(argv[4], "graph") == 0;
  cudaGraphExec_t graph = in_graph ? graph_of(out, blocks, launches, rounds) : nullptr;
  std::puts("launching");
  std::fflush(stdout);
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; !in_graph && i < launches; ++i) mix<<<blocks, threads>>>(out, rounds);
  if (in_graph) CUDA(cudaGraphLaunch(graph, nullptr));
  CUDA(cudaDeviceSynchronize());
  std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  std::vector<unsigned> host(n);
  CUDA(cudaMemcpy(host.data(), out, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  unsigned long long hash = 14695981039346656037ull;
  for (unsigned v : host) hash = (hash ^ v) * 1099511628211ull;
  std::printf("seconds %.4f\nhash %016llx\n", taken.count(), hash);
  return passed();
}
