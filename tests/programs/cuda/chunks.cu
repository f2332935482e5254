// SPDX-License-Identifier: Apache-2.0
//
// chunks MIB: fills MIB of device memory, of which every third MiB is zero, and prints "ready". While
// the file "pause" exists, it changes two MiB in a hundred each time that the file "change" appears,
// removes that file and prints "changed". Then it prints "same" if the memory holds what it should.
#include <unistd.h>

#include <vector>

#include "check.h"

constexpr size_t kWords = (1 << 20) / sizeof(unsigned);

static void fill(unsigned *mib, unsigned number) {
  for (size_t i = 0; i < kWords; ++i) mib[i] = number * 0x9e3779b9u ^ unsigned(i * 2654435761u);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  const size_t mib = std::strtoull(argv[1], nullptr, 10), bytes = mib << 20;
  std::vector<unsigned> host(mib * kWords), back(mib * kWords);
  for (size_t i = 0; i < mib; ++i)
    if (i % 3 != 0) fill(&host[i * kWords], i);
  unsigned *device = nullptr;
  CUDA(cudaMalloc(&device, bytes));
  CUDA(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice));
  std::puts("ready");
  std::fflush(stdout);
  for (unsigned round = 1; access("pause", F_OK) == 0; usleep(1000)) {
    if (access("change", F_OK) != 0) continue;
    for (size_t i = 1; i < mib; i += 51) fill(&host[i * kWords], 1000 * round + i);
    ++round;
    CUDA(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice));
    unlink("change");
    std::puts("changed");
    std::fflush(stdout);
  }
  CUDA(cudaMemcpy(back.data(), device, bytes, cudaMemcpyDeviceToHost));
  std::puts(host == back ? "same" : "different");
  return host == back ? 0 : 1;
}
