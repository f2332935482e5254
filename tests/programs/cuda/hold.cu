// SPDX-License-Identifier: Apache-2.0
//
// Allocates 700 MiB of device memory and keeps it until it is killed (docs/MANAGER.md).
#include <unistd.h>

#include "check.h"

int main() {
  void *memory = nullptr;
  CUDA(cudaMalloc(&memory, 700 << 20));
  CUDA(cudaMemset(memory, 1, 700 << 20));
  CUDA(cudaDeviceSynchronize());
  for (;;) pause();
}
