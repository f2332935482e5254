// SPDX-License-Identifier: Apache-2.0
//
// grows MIB MORE: fills MIB of device memory and prints "ready". When the file "change" appears, it
// removes that file, takes MORE MiB in place of them and prints "grown". While the file "pause"
// exists, it waits. Then it prints "same" if the memory holds what it should.
#include <unistd.h>

#include <vector>

#include "check.h"

static unsigned char *filled(std::vector<unsigned char> &host, size_t mib) {
  host.assign(mib << 20, static_cast<unsigned char>(mib));
  unsigned char *device = nullptr;
  CUDA(cudaMalloc(&device, host.size()));
  CUDA(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice));
  return device;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  std::vector<unsigned char> host, back;
  unsigned char *device = filled(host, std::strtoull(argv[1], nullptr, 10));
  std::puts("ready");
  std::fflush(stdout);
  for (; access("pause", F_OK) == 0; usleep(1000)) {
    if (access("change", F_OK) != 0) continue;
    unlink("change");
    CUDA(cudaFree(device));
    device = filled(host, std::strtoull(argv[2], nullptr, 10));
    std::puts("grown");
    std::fflush(stdout);
  }
  back.resize(host.size());
  CUDA(cudaMemcpy(back.data(), device, back.size(), cudaMemcpyDeviceToHost));
  std::puts(host == back ? "same" : "different");
  return host == back ? 0 : 1;
}
