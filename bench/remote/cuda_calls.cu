// SPDX-License-Identifier: Apache-2.0
//
// What calls of the CUDA runtime cost their caller, as a JSON object: µs for an empty launch (one
// way), a synchronising call, a copy of 4 KiB to the host, and an empty launch with a wait while the
// host changes a word of 1 or 64 MiB of managed memory; GB/s for large copies.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t e) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(e));
  std::exit(1);
}

__global__ void empty() {}

// Seconds for one of `n` calls.
template <class F>
static double seconds(int n, F f) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < n; i++) f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / n;
}

static double managed_seconds(size_t bytes) {
  char *p;
  check(cudaMallocManaged(&p, bytes));
  for (size_t i = 0; i < bytes; i++) p[i] = static_cast<char>(i);
  empty<<<1, 1>>>();
  check(cudaDeviceSynchronize());
  double s = seconds(20, [&] {
    p[bytes / 2]++;
    empty<<<1, 1>>>();
    check(cudaDeviceSynchronize());
  });
  check(cudaFree(p));
  return s;
}

int main() {
  constexpr size_t kLarge = 128u << 20;
  std::vector<char> host(kLarge, 1);
  char *p;
  check(cudaMalloc(&p, kLarge));
  for (int i = 0; i < 100; i++) empty<<<1, 1>>>();
  check(cudaDeviceSynchronize());
  double launch = seconds(2000, [] { empty<<<1, 1>>>(); });
  check(cudaDeviceSynchronize());
  double sync = seconds(2000, [] { check(cudaDeviceSynchronize()); });
  double small =
      seconds(1000, [&] { check(cudaMemcpy(host.data(), p, 4096, cudaMemcpyDeviceToHost)); });
  double write =
      seconds(4, [&] { check(cudaMemcpy(p, host.data(), kLarge, cudaMemcpyHostToDevice)); });
  double read =
      seconds(4, [&] { check(cudaMemcpy(host.data(), p, kLarge, cudaMemcpyDeviceToHost)); });
  double managed = managed_seconds(1u << 20), large_managed = managed_seconds(64u << 20);
  std::printf("{\"launch_us\": %.2f, \"sync_us\": %.2f, \"read_4k_us\": %.2f, \"managed_1m_us\": %.2f, "
              "\"managed_64m_us\": %.2f, \"write_gb_s\": %.2f, \"read_gb_s\": %.2f}\n",
              launch * 1e6, sync * 1e6, small * 1e6, managed * 1e6, large_managed * 1e6,
              kLarge / write / 1e9, kLarge / read / 1e9);
}
