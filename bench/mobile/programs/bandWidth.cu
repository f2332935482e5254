// SPDX-License-Identifier: Apache-2.0
//
// bandWidth: a vector addition bound by the device's memory: the operands stay there, and the result
// is looked at in the end.
#include <vector>

#include "mobile.h"

int main(int argc, char **argv) {
  Size s = size_of(argc, argv);
  const size_t n = s.bytes / 3 / sizeof(int), part = part_size(n);
  int *a, *b, *c;
  for (int **p : {&a, &b, &c}) CUDA(cudaMalloc(p, n * sizeof(int)));
  CUDA(cudaMemset(a, 1, n * sizeof(int)));
  CUDA(cudaMemset(b, 2, n * sizeof(int)));
  CUDA(cudaMemset(c, 0, n * sizeof(int)));
  for (int r = 0; r < s.rounds; ++r) add_part(a + part_of(r, n), b + part_of(r, n), c + part_of(r, n), part);
  std::vector<int> z(part);
  for (int r = 0; r < s.rounds; ++r) {
    CUDA(cudaMemcpy(z.data(), c + part_of(r, n), part * sizeof(int), cudaMemcpyDeviceToHost));
    for (int v : z) CHECK(v == 0x03030303);
  }
  return passed();
}
