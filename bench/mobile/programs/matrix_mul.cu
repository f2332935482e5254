// SPDX-License-Identifier: Apache-2.0
//
// matrixMul: multiplies tiles in shared memory, so arithmetic limits it. --work counts products
// (tiles.h).
#include "cuda.h"
#include "tiles.h"

using namespace mobile;

__global__ void multiply(const float *a, const float *b, float *c) {
  __shared__ float left[kTile][kTile], right[kTile][kTile];
  size_t product = blockIdx.x, x = threadIdx.x, y = threadIdx.y;
  a += product * kInput;
  b += product * kInput;
  float sum = 0;
  for (size_t part = 0; part < kDepth; part += kTile) {
    left[y][x] = a[y * kDepth + part + x];
    right[y][x] = b[(part + y) * kTile + x];
    __syncthreads();
    for (size_t k = 0; k < kTile; ++k) sum += left[y][k] * right[k][x];
    __syncthreads();
  }
  c[product * kOutput + y * kTile + x] += sum;
}

int main(int argc, char **argv) {
  Options o = read_options(argc, argv);
  Times t;
  size_t bytes = vector_bytes(o), n = bytes / sizeof(float), products = n / kInput;
  float *a = allocate<float>(bytes), *b = allocate<float>(bytes), *c = allocate<float>(bytes);
  allocate_rest(o);
  std::vector<float> left = small_numbers(n, 1), right = small_numbers(n, 2), back(n);
  CUDA(cudaMemcpy(a, left.data(), bytes, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(b, right.data(), bytes, cudaMemcpyHostToDevice));
  CUDA(cudaMemset(c, 0, bytes));
  t.loaded = now();
  Windows w(products, o.work);
  for (size_t s = 0; s < o.steps; ++s) {
    size_t at = w.first(s);
    multiply<<<static_cast<unsigned>(w.size), dim3(kTile, kTile)>>>(
        a + at * kInput, b + at * kInput, c + at * kOutput);
    stepped(o, s);
  }
  t.computed = now();
  CUDA(cudaMemcpy(back.data(), c, bytes, cudaMemcpyDeviceToHost));
  for (size_t p = 0; p < products; ++p)
    CHECK(is_product(&left[p * kInput], &right[p * kInput], &back[p * kOutput],
                     w.passes(p, o.steps)));
  return passed(t);
}
