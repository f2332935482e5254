// SPDX-License-Identifier: Apache-2.0
//
// The barrier of a grid by the functions of libcudadevrt, as numba's grid.sync() calls it.
#include "check.h"

constexpr int kRows = 6, kColumns = 128;

// Each row needs the whole row before it.
__global__ void rows(int *m) {
  unsigned long long grid = cudaCGGetIntrinsicHandle(cudaCGScopeGrid);
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int r = 1; r < kRows; r++) {
    m[r * kColumns + i] = m[(r - 1) * kColumns + kColumns - 1 - i] + 1;
    if (cudaCGSynchronize(grid, 0) != cudaSuccess) m[0] = -1;
  }
}

int main() {
  int *m = nullptr, last[kColumns];
  void *args[] = {&m};
  CUDA(cudaMalloc(&m, kRows * kColumns * 4));
  for (int n = 0; n < 2; n++) {
    CUDA(cudaMemset(m, 0, kRows * kColumns * 4));
    CUDA(cudaLaunchCooperativeKernel(rows, dim3(4), dim3(kColumns / 4), args, 0, nullptr));
    CUDA(cudaMemcpy(last, m + (kRows - 1) * kColumns, sizeof last, cudaMemcpyDeviceToHost));
    for (int v : last) CHECK(v == kRows - 1);
  }
  return passed();
}
