// SPDX-License-Identifier: Apache-2.0
//
// A block that was freed stays mapped for the next allocation of its size. An entry that gets its
// memory from the driver must find that memory all the same: an array, when all other memory is in
// use. `kept BYTES`: the size of the block.
#include "check.h"

int main(int, char **argv) {
  const size_t bytes = std::strtoull(argv[1], nullptr, 10), granule = 2u << 20;
  void *block, *rest;
  CUDA(cudaMalloc(&block, bytes));
  CUDA(cudaFree(block));
  size_t free, all;
  CUDA(cudaMemGetInfo(&free, &all));
  CUDA(cudaMalloc(&rest, (free - bytes) / granule * granule));
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  CUDA(cudaMallocArray(&array, &format, 1024, bytes / 2 / 4096));
  CUDA(cudaFreeArray(array));
  return passed();
}
