// SPDX-License-Identifier: Apache-2.0
//
// Streams and launches with priorities, and what the program is told of them.
#include "check.h"

__global__ void fill(int *p, int v) { p[blockIdx.x * blockDim.x + threadIdx.x] = v; }

static int priority_of(cudaStream_t s) {
  int priority = 1;
  CUDA(cudaStreamGetPriority(s, &priority));
  cudaStreamAttrValue value{};
  CUDA(cudaStreamGetAttribute(s, cudaStreamAttributePriority, &value));
  CHECK(value.priority == priority);
  return priority;
}

static bool fills(int *p, cudaStream_t s, int v) {
  int last = 0;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributePriority;
  attribute.val.priority = -3;
  cudaLaunchConfig_t config{};
  config.gridDim = 8, config.blockDim = 32, config.stream = s;
  config.attrs = &attribute, config.numAttrs = 1;
  CUDA(cudaLaunchKernelEx(&config, fill, p, v));
  CUDA(cudaStreamSynchronize(s));
  CUDA(cudaMemcpy(&last, p + 255, sizeof last, cudaMemcpyDeviceToHost));
  return last == v && attribute.val.priority == -3;
}

int main() {
  int least = 1, greatest = 1, *p;
  CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  std::printf("range %d to %d\n", least, greatest);
  CUDA(cudaMalloc(&p, 256 * sizeof(int)));
  cudaStream_t highest, middle, plain;
  CUDA(cudaStreamCreateWithPriority(&highest, cudaStreamNonBlocking, greatest - 7));
  CUDA(cudaStreamCreateWithPriority(&middle, cudaStreamNonBlocking, -2));
  CUDA(cudaStreamCreate(&plain));
  CHECK(priority_of(highest) == greatest);
  CHECK(priority_of(middle) == -2);
  CHECK(priority_of(plain) == 0);
  CHECK(fills(p, highest, 1) && fills(p, middle, 2) && fills(p, plain, 3));
  cudaStreamAttrValue value{};
  value.priority = greatest;
  CUDA(cudaStreamSetAttribute(middle, cudaStreamAttributePriority, &value));
  CHECK(priority_of(middle) == greatest);
  CUDA(cudaStreamDestroy(middle));
  CUDA(cudaStreamCreate(&middle));
  CHECK(priority_of(middle) == 0);
  CUDA(cudaStreamDestroy(middle));
  CUDA(cudaStreamDestroy(highest));
  CUDA(cudaStreamDestroy(plain));
  return passed();
}
