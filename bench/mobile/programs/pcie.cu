// SPDX-License-Identifier: Apache-2.0
//
// pcie: each step copies vectors to the device, adds them and copies the sum back, so the bus
// limits it. --work counts the elements that are added; all elements are copied.
#include "vectors.h"

using namespace mobile;

int main(int argc, char **argv) {
  Options o = read_options(argc, argv);
  Times t;
  size_t bytes = vector_bytes(o), n = bytes / sizeof(uint32_t);
  uint32_t *a = allocate<uint32_t>(bytes), *b = allocate<uint32_t>(bytes);
  uint32_t *c = allocate<uint32_t>(bytes);
  allocate_rest(o);
  std::vector<uint32_t> left = values(n, 1), right = values(n, 2), sum(n);
  CUDA(cudaMemset(c, 0, bytes));
  t.loaded = now();
  Windows w(n, o.work);
  for (size_t s = 0; s < o.steps; ++s) {
    size_t at = w.first(s);
    left[at] += 1;  // each step has a new input
    CUDA(cudaMemcpy(a, left.data(), bytes, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(b, right.data(), bytes, cudaMemcpyHostToDevice));
    add<<<blocks(w.size), kThreads>>>(a + at, b + at, c + at, w.size);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(sum.data(), c, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = at; i < at + w.size; ++i) CHECK(sum[i] == left[i] + right[i]);
    host_works(o.gap);
  }
  t.computed = now();
  for (size_t i = 0; i < n; ++i)
    CHECK(sum[i] == (w.passes(i, o.steps) > 0 ? left[i] + right[i] : 0));
  return passed(t);
}
