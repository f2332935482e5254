// SPDX-License-Identifier: Apache-2.0
//
// pcie: a vector addition bound by the bus: every round takes its operands from the host and its
// result back.
#include <vector>

#include "mobile.h"

int main(int argc, char **argv) {
  Size s = size_of(argc, argv);
  const size_t n = s.bytes / 3 / sizeof(int), part = part_size(n);
  int *a, *b, *c;
  for (int **p : {&a, &b, &c}) CUDA(cudaMalloc(p, n * sizeof(int)));
  std::vector<int> x(part), y(part), z(part);
  for (int r = 0; r < s.rounds; ++r) {
    for (size_t i = 0; i < part; ++i) x[i] = static_cast<int>(i) + r, y[i] = static_cast<int>(i) * 3 - r;
    size_t at = part_of(r, n);
    CUDA(cudaMemcpy(a + at, x.data(), part * sizeof(int), cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(b + at, y.data(), part * sizeof(int), cudaMemcpyHostToDevice));
    add_part(a + at, b + at, c + at, part);
    CUDA(cudaMemcpy(z.data(), c + at, part * sizeof(int), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < part; ++i) CHECK(z[i] == static_cast<int>(i) * 4);
  }
  return passed();
}
