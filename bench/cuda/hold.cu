// SPDX-License-Identifier: Apache-2.0
//
// hold MIB zeros|smooth|random [PIECES]: holds device memory with such contents, in so many
// allocations, says "held" and the speed of plain copies in GB/s, and waits to be killed.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#include "bench/content.h"

template <class F>
static double gigabytes(double bytes, F copy) {
  auto begin = std::chrono::steady_clock::now();
  copy();
  return bytes / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 1e9;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  size_t bytes = std::strtoull(argv[1], nullptr, 10) << 20;
  size_t pieces = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 8, each = bytes / pieces;
  std::vector<char *> all(pieces);
  std::vector<float> host(each / sizeof(float));
  ckpt::bench::Content content(argv[2]);
  for (size_t i = 0; i < pieces; ++i) {
    if (i < 64) content.fill(host.data(), host.size());
    if (cudaMalloc(&all[i], each) != cudaSuccess) return std::puts("no room"), 1;
    cudaMemcpy(all[i], host.data(), each, cudaMemcpyHostToDevice);
  }
  auto copy_all = [&](cudaMemcpyKind kind) {
    for (char *p : all)
      kind == cudaMemcpyDeviceToHost ? cudaMemcpy(host.data(), p, each, kind)
                                     : cudaMemcpy(p, host.data(), each, kind);
  };
  if (pieces <= 64) {
    double out = gigabytes(static_cast<double>(bytes), [&] { copy_all(cudaMemcpyDeviceToHost); });
    std::printf("held out %.2f GB/s\n", out);
  } else {
    std::puts("held");
  }
  std::fflush(stdout);
  for (;;) pause();
}
