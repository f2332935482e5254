// SPDX-License-Identifier: Apache-2.0
//
// Makes objects that name device memory by its address, all the time. Each kind of object has a thread of its
// own, which makes no other call that a checkpoint holds back, so a checkpoint finds each thread before or in
// that call. The main thread uses a texture, and prints "step N" now and then. Ends when there is a file
// "finish", or at the first error.
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "check.h"

static std::atomic<bool> ends{false};

__global__ void fetch(cudaTextureObject_t texture, unsigned *out) { *out = tex1Dfetch<unsigned>(texture, 7); }

static cudaTextureObject_t make_texture(unsigned *data) {
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = data;
  resource.res.linear.desc = cudaCreateChannelDesc<unsigned>();
  resource.res.linear.sizeInBytes = 4096;
  cudaTextureDesc how{};
  how.readMode = cudaReadModeElementType;
  cudaTextureObject_t texture;
  CUDA(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  return texture;
}

static void make_textures(unsigned *data) {
  while (!ends) CUDA(cudaDestroyTextureObject(make_texture(data)));
}

template <class AddNode>
static void make_graphs(AddNode add) {
  while (!ends) {
    cudaGraph_t graph;
    cudaGraphNode_t node;
    CUDA(cudaGraphCreate(&graph, 0));
    CUDA(add(&node, graph));
    CUDA(cudaGraphDestroy(graph));
  }
}

static void make_copies(unsigned *data, unsigned *out) {
  make_graphs([=](cudaGraphNode_t *node, cudaGraph_t graph) {
    return cudaGraphAddMemcpyNode1D(node, graph, nullptr, 0, out, data, 1024, cudaMemcpyDeviceToDevice);
  });
}

static void make_fills(unsigned *data) {
  cudaMemsetParams set{};
  set.dst = data;
  set.elementSize = 4;
  set.width = 256;
  set.height = 1;
  make_graphs([=](cudaGraphNode_t *node, cudaGraph_t graph) {
    return cudaGraphAddMemsetNode(node, graph, nullptr, 0, &set);
  });
}

int main() {
  unsigned *data, *out, value = 0;
  CUDA(cudaMalloc(&data, 4 << 20));
  CUDA(cudaMalloc(&out, 4 << 20));
  CUDA(cudaMemset(data, 1, 4 << 20));
  cudaTextureObject_t texture = make_texture(data);
  std::vector<std::thread> threads;
  threads.emplace_back(make_textures, data);
  threads.emplace_back(make_copies, data, out);
  threads.emplace_back(make_fills, data);
  for (unsigned step = 0; access("finish", F_OK) != 0; ++step) {
    fetch<<<1, 1>>>(texture, out);
    CUDA(cudaMemcpy(&value, out, 4, cudaMemcpyDeviceToHost));
    CHECK(value == 0x01010101);
    if (step % 100 == 0) std::printf("step %u\n", step), std::fflush(stdout);
  }
  ends = true;
  for (std::thread &t : threads) t.join();
  return passed();
}
