// SPDX-License-Identifier: Apache-2.0
//
// matrixMul: bound by computing. C = A · B by tiles in shared memory; in each round some rows of C.
#include <vector>

#include "mobile.h"

constexpr int kTile = 16;
constexpr int kInner = 256;  // of the product: columns of A, rows of B

__global__ void multiply(const int *a, const int *b, int *c, int width, int first) {
  __shared__ int as[kTile][kTile], bs[kTile][kTile];
  int row = first + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x, sum = 0;
  for (int k = 0; k < kInner; k += kTile) {
    as[threadIdx.y][threadIdx.x] = a[static_cast<size_t>(row) * kInner + k + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[static_cast<size_t>(k + threadIdx.y) * width + column];
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  c[static_cast<size_t>(row) * width + column] = sum;
}

int main(int argc, char **argv) {
  Size s = size_of(argc, argv);
  const int width = 256, rows = static_cast<int>((s.bytes / sizeof(int) - kInner * width) / (kInner + width)) / kTile * kTile;
  CHECK(rows >= kTile);
  std::vector<int> a(static_cast<size_t>(rows) * kInner), b(kInner * width);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int>(i * 7 % 13);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<int>(i * 5 % 11);
  int *da, *db, *dc;
  CUDA(cudaMalloc(&da, a.size() * sizeof(int)));
  CUDA(cudaMalloc(&db, b.size() * sizeof(int)));
  CUDA(cudaMalloc(&dc, static_cast<size_t>(rows) * width * sizeof(int)));
  CUDA(cudaMemcpy(da, a.data(), a.size() * sizeof(int), cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(db, b.data(), b.size() * sizeof(int), cudaMemcpyHostToDevice));
  std::vector<int> c(kTile * width);
  for (int r = 0; r < s.rounds; ++r) {
    int first = r * kTile % rows;
    multiply<<<width / kTile, dim3(kTile, kTile)>>>(da, db, dc, width, first);
    CUDA(cudaMemcpy(c.data(), dc + static_cast<size_t>(first) * width, c.size() * sizeof(int), cudaMemcpyDeviceToHost));
    for (int column = 0; column < width; ++column) {
      int sum = 0;
      for (int k = 0; k < kInner; ++k) sum += a[static_cast<size_t>(first) * kInner + k] * b[k * width + column];
      CHECK(c[column] == sum);
    }
  }
  return passed();
}
