// SPDX-License-Identifier: Apache-2.0
//
// Copies data to and from a device by several calls, and prints how many bytes these were: "copied TO FROM".
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.h"

__constant__ int constants[16];

int main() {
  const size_t bytes = 1 << 20;
  size_t to = 0, from = 0;
  std::vector<char> host(bytes, 5);
  char *device, *other, *pinned;
  CUDA(cudaMalloc(&device, bytes));
  CUDA(cudaMalloc(&other, bytes));
  CUDA(cudaMallocHost(&pinned, bytes));
  CUDA(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(host.data(), device, 1000, cudaMemcpyDeviceToHost));
  to += bytes;
  from += 1000;
  CUDA(cudaMemcpy(other, device, bytes, cudaMemcpyDeviceToDevice));  // not between host and device
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, stream));
  CUDA(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDefault, stream));
  CUDA(cudaStreamSynchronize(stream));
  to += bytes;
  from += bytes;
  CUDA(cudaMemcpy2D(device, 256, host.data(), 128, 100, 30, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy2D(host.data(), 128, device, 256, 100, 30, cudaMemcpyDeviceToHost));
  to += 3000;
  from += 3000;
  int values[16] = {1};
  CUDA(cudaMemcpyToSymbol(constants, values, sizeof values));
  to += sizeof values;
  cudaArray_t array;
  const cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();
  CUDA(cudaMallocArray(&array, &floats, 32, 8));
  CUDA(cudaMemcpy2DToArray(array, 0, 0, host.data(), 128, 128, 8, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy2DFromArray(host.data(), 128, array, 0, 0, 128, 8, cudaMemcpyDeviceToHost));
  to += 1024;
  from += 1024;
  std::printf("copied %zu %zu\n", to, from);
  return 0;
}
