// SPDX-License-Identifier: Apache-2.0
//
// map: the operands are memory of the host that the device reads (mapped and pinned); the result is
// on the device.
#include <vector>

#include "mobile.h"

int main(int argc, char **argv) {
  Size s = size_of(argc, argv);
  const size_t n = s.bytes / sizeof(int), part = part_size(n);
  int *a, *b, *da, *db, *c;
  for (int **p : {&a, &b}) CUDA(cudaHostAlloc(p, part * sizeof(int), cudaHostAllocMapped));
  CUDA(cudaHostGetDevicePointer(&da, a, 0));
  CUDA(cudaHostGetDevicePointer(&db, b, 0));
  CUDA(cudaMalloc(&c, n * sizeof(int)));
  std::vector<int> z(part);
  for (int r = 0; r < s.rounds; ++r) {
    for (size_t i = 0; i < part; ++i) a[i] = static_cast<int>(i) + r, b[i] = static_cast<int>(i) - r;
    add_part(da, db, c + part_of(r, n), part);
    CUDA(cudaMemcpy(z.data(), c + part_of(r, n), part * sizeof(int), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < part; ++i) CHECK(z[i] == 2 * static_cast<int>(i));
  }
  return passed();
}
