// SPDX-License-Identifier: Apache-2.0
//
// A program that a test can stop anywhere. The result of each step depends on all steps before. The
// state is in device memory, a device variable, an array and host memory that the device reads, and
// device memory contains pointers that must stay valid. Prints "step N" after each step, waits
// while the file "pause" exists, and finally prints a checksum.
#include <unistd.h>

#include <cstring>

#include "list.h"

__device__ unsigned salt = 17;
__constant__ unsigned factor;

__global__ void step(unsigned *data, int n, const unsigned *host, unsigned round) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = data[i] * factor + salt + host[i % 64] + round;
}

__global__ void next_salt() { salt = salt * 3 + 1; }

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 10, n = argc > 2 ? std::atoi(argv[2]) : 1 << 16;
  const unsigned f = 5;
  CUDA(cudaMemcpyToSymbol(factor, &f, sizeof f));
  unsigned *data, *sum, *host;
  CUDA(cudaMalloc(&data, n * sizeof *data));
  CUDA(cudaMemset(data, 1, n * sizeof *data));
  CUDA(cudaMalloc(&sum, sizeof *sum));
  CUDA(cudaMemset(sum, 0, sizeof *sum));
  CUDA(cudaMallocHost(&host, 64 * sizeof *host));
  for (int i = 0; i < 64; ++i) host[i] = i * i;
  Node *list = make_list(50);
  cudaStream_t stream;
  cudaEvent_t event;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaEventCreate(&event));
  for (int r = 0; r < steps; ++r) {
    step<<<(n + 255) / 256, 256, 0, stream>>>(data, n, host, r);
    next_salt<<<1, 1, 0, stream>>>();
    walk<<<1, 1, 0, stream>>>(list, sum);
    CUDA(cudaGetLastError());
    CUDA(cudaEventRecord(event, stream));
    CUDA(cudaStreamSynchronize(stream));
    host[r % 64] += r;
    std::printf("step %d\n", r + 1);
    std::fflush(stdout);
    // A test may stop the program here for any time.
    while (access("pause", F_OK) == 0) usleep(2000);
  }
  CUDA(cudaEventSynchronize(event));
  std::vector<unsigned> all(n);
  unsigned check = 0, s = 0;
  CUDA(cudaMemcpy(all.data(), data, n * sizeof *data, cudaMemcpyDeviceToHost));
  CUDA(cudaMemcpy(&s, sum, sizeof s, cudaMemcpyDeviceToHost));
  for (unsigned v : all) check = check * 33 + v;
  std::printf("checksum %08x %08x\n", check, s);
  return passed();
}
