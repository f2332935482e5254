// SPDX-License-Identifier: Apache-2.0
//
// A program with many objects of the CUDA API, which a benchmark moves.
//
//   objects EVENTS STREAMS LIBRARIES BLOCKS [DEVICES]   prints "ready"; then, for each line that it
//                                                       reads, µs of a launch and of a wait on each
//                                                       device; ends with its input
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

static void check(cudaError_t e) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(e));
  std::exit(1);
}

__global__ void empty() {}

// Each one another text, since code that is equal travels once.
static std::string library_text(int n) {
  return ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry kernel_" + std::to_string(n) +
         "()\n{\nret;\n}\n";
}

template <class F>
static double microseconds(int n, F f) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < n; i++) f();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / n;
}

static void measure_calls(int devices) {
  for (int d = 0; d < devices; d++) {
    check(cudaSetDevice(d));
    empty<<<1, 1>>>();
    check(cudaDeviceSynchronize());
    double launch = microseconds(2000, [] { empty<<<1, 1>>>(); });
    check(cudaDeviceSynchronize());
    double wait = microseconds(500, [] { check(cudaDeviceSynchronize()); });
    std::printf("device %d launch %.3f wait %.3f\n", d, launch, wait);
  }
  std::puts("measured");
  std::fflush(stdout);
}

int main(int argc, char **argv) {
  auto argument = [&](int i, int usual) { return argc > i ? std::atoi(argv[i]) : usual; };
  const int devices = argument(5, 1);
  for (int d = devices; d-- > 0;) {
    check(cudaSetDevice(d));
    empty<<<1, 1>>>();
    check(cudaDeviceSynchronize());
  }
  for (int i = 0; i < argument(1, 0); i++) {
    cudaEvent_t event;
    check(cudaEventCreate(&event));
  }
  for (int i = 0; i < argument(2, 0); i++) {
    cudaStream_t stream;
    check(cudaStreamCreate(&stream));
  }
  for (int i = 0; i < argument(3, 0); i++) {
    cudaLibrary_t library;
    check(cudaLibraryLoadData(&library, library_text(i).c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  for (int i = 0; i < argument(4, 0); i++) {  // of 2 MiB, the smallest that has memory of its own
    void *block;
    check(cudaMalloc(&block, 2 << 20));
  }
  check(cudaDeviceSynchronize());
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) measure_calls(devices);
}
