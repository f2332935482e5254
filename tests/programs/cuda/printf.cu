// SPDX-License-Identifier: Apache-2.0
//
// Text of kernels and of the host, in turns. A kernel's text appears at the next call that waits.
#include "check.h"

__global__ void speak(int turn, const char *word) {
  if (threadIdx.x < 2)
    printf("kernel %d, thread %d: %s %.2f\n", turn, threadIdx.x, word, turn / 4.0);
}

int main() {
  char *word;
  CUDA(cudaMalloc(&word, 8));
  CUDA(cudaMemcpy(word, "quarter", 8, cudaMemcpyHostToDevice));
  for (int turn = 0; turn < 3; turn++) {
    std::printf("host %d\n", turn);
    speak<<<1, 32>>>(turn, word);
    CUDA(cudaDeviceSynchronize());
    std::fflush(stdout);
  }
  // More than a message holds.
  for (int turn = 3; turn < 3000; turn++) speak<<<1, 32>>>(turn, word);
  CUDA(cudaDeviceSynchronize());
  return passed();
}
