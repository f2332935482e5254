// SPDX-License-Identifier: Apache-2.0
//
// hold MIB zeros|smooth|random [PIECES]: holds device memory with such contents, in so many
// allocations, says "held" and the speed of plain copies in GB/s, and waits to be killed.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include <cuda_runtime.h>

static void fill(std::vector<char> &host, const char *what, unsigned seed) {
  std::mt19937_64 engine(seed);
  if (std::strcmp(what, "random") == 0)
    for (size_t i = 0; i + 8 <= host.size(); i += 8) {
      unsigned long long v = engine();
      std::memcpy(&host[i], &v, 8);
    }
  if (std::strcmp(what, "smooth") == 0)
    for (size_t i = 0; i + 4 <= host.size(); i += 4) {
      float v = std::sin(static_cast<float>(i / 4) * 1e-4f + static_cast<float>(seed));
      std::memcpy(&host[i], &v, 4);
    }
}

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
  std::vector<char> host(each);
  for (size_t i = 0; i < pieces; ++i) {
    if (i < 64) fill(host, argv[2], static_cast<unsigned>(i));
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
