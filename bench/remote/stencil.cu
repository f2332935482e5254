// SPDX-License-Identifier: Apache-2.0
//
// A whole program: heat in a plate, 400 steps of one kernel each, and a look at the largest change after every
// tenth. Prints the seconds of its loop as a JSON object, and a sum of the result.
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

__global__ void step(const float *from, float *to, int n, unsigned *largest) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
  int i = y * n + x;
  float next = 0.25f * (from[i - 1] + from[i + 1] + from[i - n] + from[i + n]);
  to[i] = next;
  atomicMax(largest, __float_as_uint(fabsf(next - from[i])));
}

int main(int argc, char **argv) {
  int n = argc > 1 ? std::atoi(argv[1]) : 128, steps = argc > 2 ? std::atoi(argv[2]) : 400;
  std::vector<float> plate(n * n, 0);
  for (int i = 0; i < n; i++) plate[i] = 100;
  float *a, *b;
  unsigned *largest, seen = 0;
  size_t bytes = plate.size() * sizeof(float);
  check(cudaMalloc(&a, bytes));
  check(cudaMalloc(&b, bytes));
  check(cudaMalloc(&largest, sizeof *largest));
  check(cudaMemcpy(a, plate.data(), bytes, cudaMemcpyHostToDevice));
  check(cudaMemcpy(b, plate.data(), bytes, cudaMemcpyHostToDevice));
  dim3 block(16, 16), grid((n + 15) / 16, (n + 15) / 16);
  step<<<grid, block>>>(a, a, 0, largest);  // the code is loaded
  check(cudaDeviceSynchronize());
  auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; i++) {
    check(cudaMemsetAsync(largest, 0, sizeof *largest));
    step<<<grid, block>>>(a, b, n, largest);
    std::swap(a, b);
    if (i % 10 == 9) check(cudaMemcpy(&seen, largest, sizeof seen, cudaMemcpyDeviceToHost));
  }
  check(cudaMemcpy(plate.data(), a, bytes, cudaMemcpyDeviceToHost));
  double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  double sum = seen;
  for (float f : plate) sum += f;
  std::printf("{\"program_s\": %.5f, \"sum\": %.6f}\n", s, sum);
}
