// SPDX-License-Identifier: Apache-2.0
//
// grows MIB MORE: fills MIB of device memory and prints "ready". When the file "change" appears, it
// removes that file, allocates MORE further MiB and prints "grown", or the error. While the file
// "pause" exists, it waits. Then it prints "same" if the memory holds what it should.
#include <unistd.h>

#include <vector>

#include "check.h"

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  const size_t bytes = std::strtoull(argv[1], nullptr, 10) << 20;
  const size_t more = std::strtoull(argv[2], nullptr, 10) << 20;
  std::vector<unsigned char> host(bytes, 7), back(bytes);
  unsigned char *device = nullptr, *second = nullptr;
  CUDA(cudaMalloc(&device, bytes));
  CUDA(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice));
  std::puts("ready");
  std::fflush(stdout);
  for (; access("pause", F_OK) == 0; usleep(1000)) {
    if (access("change", F_OK) != 0) continue;
    unlink("change");
    cudaError_t e = cudaMalloc(&second, more);
    std::puts(e == cudaSuccess ? "grown" : cudaGetErrorName(e));
    std::fflush(stdout);
  }
  CUDA(cudaMemcpy(back.data(), device, bytes, cudaMemcpyDeviceToHost));
  std::puts(host == back ? "same" : "different");
  return host == back ? 0 : 1;
}
