// SPDX-License-Identifier: Apache-2.0
//
// hold MIB zeros|smooth|random [PIECES]: allocates device memory in PIECES allocations (8), fills
// it on the device, prints "held" and the speed of plain copies in GB/s, and waits to be killed. Copies out and in
// are timed twice: into memory that is in use, and into new memory, since a copy that is kept must
// allocate as well. At each SIGUSR1 it changes one MiB in a hundred, and prints "changed".
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include <cuda_runtime.h>

// The contents of bench/content.h, with a hash of the place instead of a generator: each thread
// makes its own element.
__device__ unsigned noise(unsigned long long place) {
  place = (place + 1) * 0x9e3779b97f4a7c15ull;
  place = (place ^ (place >> 30)) * 0xbf58476d1ce4e5b9ull;
  return static_cast<unsigned>(place >> 32);
}

__device__ unsigned smooth(unsigned long long place) {
  float row = static_cast<float>(place >> 12), column = static_cast<float>((place & 4095) >> 3);
  unsigned field = __float_as_uint(300.0f + 40.0f * __sinf(row * 1e-3f + column * 1e-2f)) & ~0xfffu;
  return place % 8 == 0 ? field | (noise(place) & 0xff0u) : field;
}

__global__ void fill(unsigned *to, size_t count, size_t first, bool is_smooth) {
  size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) to[i] = is_smooth ? smooth(first + i) : noise(first + i);
}

// A failed copy would be a fast one.
static void check(cudaError_t e) {
  if (e == cudaSuccess) return;
  std::printf("hold: %s\n", cudaGetErrorString(e));
  std::exit(1);
}

template <class F>
static double gigabytes(double bytes, F copy) {
  auto begin = std::chrono::steady_clock::now();
  copy();
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return bytes / took.count() / 1e9;
}

// `used` is host memory in use; new memory is kept until everything is copied.
static void print_copies(const std::vector<char *> &all, void *used, size_t each) {
  double bytes = static_cast<double>(each) * static_cast<double>(all.size());
  double out = gigabytes(bytes, [&] {
    for (char *p : all) check(cudaMemcpy(used, p, each, cudaMemcpyDeviceToHost));
  });
  std::vector<std::unique_ptr<char[]>> kept;
  double kept_out = gigabytes(bytes, [&] {
    for (char *p : all) {
      kept.emplace_back(new char[each]);
      check(cudaMemcpy(kept.back().get(), p, each, cudaMemcpyDeviceToHost));
    }
  });
  double in = gigabytes(bytes, [&] {
    for (size_t i = 0; i < all.size(); i++)
      check(cudaMemcpy(all[i], kept[i].get(), each, cudaMemcpyHostToDevice));
  });
  std::vector<char *> made(all.size());
  double made_in = gigabytes(bytes, [&] {
    for (size_t i = 0; i < all.size(); i++) {
      check(cudaMalloc(&made[i], each));
      check(cudaMemcpy(made[i], kept[i].get(), each, cudaMemcpyHostToDevice));
    }
  });
  for (char *p : made) check(cudaFree(p));
  std::printf(" out %.2f GB/s, into new memory %.2f, in %.2f, into new memory %.2f", out, kept_out,
              in, made_in);
}

static void change(const std::vector<char *> &all, size_t each) {
  constexpr size_t kMiB = 1 << 20, kEvery = 100;
  static int round = 0;
  round++;
  for (size_t at = 0; at < each * all.size(); at += kEvery * kMiB)
    check(cudaMemset(all[at / each] + at % each, round, 1));
  check(cudaDeviceSynchronize());
  std::puts("changed");
  std::fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  size_t bytes = std::strtoull(argv[1], nullptr, 10) << 20;
  size_t pieces = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 8, each = bytes / pieces;
  size_t count = each / sizeof(unsigned);
  std::vector<char *> all(pieces);
  for (size_t i = 0; i < pieces; ++i) {
    check(cudaMalloc(&all[i], each));
    check(cudaMemset(all[i], 0, each));
    if (std::strcmp(argv[2], "zeros") == 0) continue;
    fill<<<static_cast<unsigned>((count + 255) / 256), 256>>>(
        reinterpret_cast<unsigned *>(all[i]), count, i * count, std::strcmp(argv[2], "smooth") == 0);
    check(cudaGetLastError());
  }
  check(cudaDeviceSynchronize());
  std::vector<char> host(each);
  std::printf("held");
  if (pieces <= 64) print_copies(all, host.data(), each);
  std::puts("");
  std::fflush(stdout);
  for (int signal = 0; sigwait(&signals, &signal) == 0;) change(all, each);
}
