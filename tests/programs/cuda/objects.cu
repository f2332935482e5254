// SPDX-License-Identifier: Apache-2.0
//
// Makes objects that name device memory by its address, all the time: textures, and graphs with copies and
// kernels. Prints "step N" now and then; ends when there is a file "finish", or at the first error.
#include <unistd.h>

#include "check.h"

__global__ void fetch(cudaTextureObject_t texture, unsigned *out) { *out = tex1Dfetch<unsigned>(texture, 7); }

static void make_texture(unsigned *data, unsigned *out) {
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = data;
  resource.res.linear.desc = cudaCreateChannelDesc<unsigned>();
  resource.res.linear.sizeInBytes = 4096;
  cudaTextureDesc how{};
  how.readMode = cudaReadModeElementType;
  cudaTextureObject_t texture;
  CUDA(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  fetch<<<1, 1>>>(texture, out);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaDestroyTextureObject(texture));
}

static void make_graph(unsigned *data, unsigned *out) {
  cudaGraph_t graph;
  cudaGraphNode_t copy, clear;
  CUDA(cudaGraphCreate(&graph, 0));
  CUDA(cudaGraphAddMemcpyNode1D(&copy, graph, nullptr, 0, out, data, 1024, cudaMemcpyDeviceToDevice));
  cudaMemsetParams set{};
  set.dst = data;
  set.elementSize = 4;
  set.width = 256;
  set.height = 1;
  CUDA(cudaGraphAddMemsetNode(&clear, graph, &copy, 1, &set));
  CUDA(cudaGraphDestroy(graph));
}

int main() {
  unsigned *data, *out;
  CUDA(cudaMalloc(&data, 4 << 20));
  CUDA(cudaMalloc(&out, 4 << 20));
  CUDA(cudaMemset(data, 0, 4 << 20));
  for (unsigned step = 0; access("finish", F_OK) != 0; ++step) {
    make_texture(data, out);
    make_graph(data, out);
    if (step % 100 == 0) std::printf("step %u\n", step), std::fflush(stdout);
  }
  return passed();
}
