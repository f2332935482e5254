// SPDX-License-Identifier: Apache-2.0
//
// How many PTX instructions one core executes in a second: straight-line arithmetic, arithmetic
// with memory accesses, and a divergent loop.
//
//   nvcc -O2 -cudart shared bench/softcuda/speed.cu -o speed
//   CKPT_SOFTCUDA_CORES=1 softcuda-run ./speed
#include <chrono>
#include <cstdio>

constexpr int kRounds = 400;

// Each round has 32 fma.rn.f32 and 32 integer instructions.
__global__ void arithmetic(float *out, float x, int y) {
  float a = threadIdx.x;
  int b = blockIdx.x + threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < kRounds; ++r) {
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(a) : "f"(x));
      asm volatile("xor.b32 %0, %0, %1;" : "+r"(b) : "r"(y));
      asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(a) : "f"(x));
      asm volatile("add.s32 %0, %0, %1;" : "+r"(b) : "r"(y));
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = a + b;
}

// Nine instructions for each element, among them two loads and a store.
__global__ void saxpy(float *y, const float *x, float a, int n) {
  int step = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) y[i] = a * x[i] + y[i];
}

__global__ void collatz(int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, steps = 0;
  for (unsigned v = i + 1; v != 1 && steps < 200; ++steps) v = v & 1 ? 3 * v + 1 : v / 2;
  if (i < n) out[i] = steps;
}

template <class F>
double seconds(F f) {
  f();
  cudaDeviceSynchronize();
  auto begin = std::chrono::steady_clock::now();
  f();
  cudaDeviceSynchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int main() {
  const int n = 1 << 20;
  float *x, *y;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  cudaMemset(x, 0, n * sizeof(float));
  double t = seconds([&] { arithmetic<<<64, 256>>>(x, 0.5f, 3); });
  std::printf("arithmetic: %.0f M instructions/s\n", 64.0 * 256 * kRounds * 66 / t / 1e6);
  t = seconds([&] { saxpy<<<64, 256>>>(y, x, 2.0f, n); });
  std::printf("saxpy: %.0f M instructions/s, %.2f GB/s\n", n * 9.0 / t / 1e6, n * 12.0 / t / 1e9);
  t = seconds([&] { collatz<<<64, 256>>>(reinterpret_cast<int *>(x), 64 * 256); });
  std::printf("collatz (divergent): %.1f ms\n", t * 1e3);
  return cudaGetLastError() != cudaSuccess;
}
