// SPDX-License-Identifier: Apache-2.0
//
// moved MIB [LOOPS LOOP_MIB]: fills MIB of device memory, prints "ready", waits while the file "pause"
// exists, and prints "same" if the memory holds what it held. Then allocates and frees LOOP_MIB, LOOPS
// times, and prints "free again" if as much memory is free as before, and can be had at once.
#include <unistd.h>

#include <vector>

#include "check.h"

static size_t free_bytes() {
  size_t free = 0, total = 0;
  CUDA(cudaMemGetInfo(&free, &total));
  return free;
}

static bool loop(int loops, size_t bytes) {
  size_t before = free_bytes();
  for (int i = 0; i < loops; ++i) {
    void *p = nullptr;
    CUDA(cudaMalloc(&p, bytes));
    CUDA(cudaFree(p));
  }
  size_t after = free_bytes();
  void *all = nullptr;
  CUDA(cudaMalloc(&all, after));
  return before == after;
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  const size_t words = (std::strtoull(argv[1], nullptr, 10) << 20) / sizeof(unsigned);
  // The first third is zero.
  std::vector<unsigned> host(words), back(words);
  for (size_t i = words / 3; i < words; ++i) host[i] = static_cast<unsigned>(i * 2654435761u);
  unsigned *device = nullptr;
  CUDA(cudaMalloc(&device, words * sizeof *device));
  CUDA(cudaMemcpy(device, host.data(), words * sizeof *device, cudaMemcpyHostToDevice));
  std::puts("ready");
  std::fflush(stdout);
  while (access("pause", F_OK) == 0) usleep(1000);
  CUDA(cudaMemcpy(back.data(), device, words * sizeof *device, cudaMemcpyDeviceToHost));
  std::puts(host == back ? "same" : "different");
  if (argc > 3 && loop(std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10) << 20))
    std::puts("free again");
  return host == back ? 0 : 1;
}
