// SPDX-License-Identifier: Apache-2.0
//
// bandWidth: repeatedly adds vectors in device memory, so the bandwidth of that memory limits it.
// --work counts elements.
#include "vectors.h"

using namespace mobile;

int main(int argc, char **argv) {
  Options o = read_options(argc, argv);
  Times t;
  size_t bytes = vector_bytes(o), n = bytes / sizeof(uint32_t);
  // The sum alternates between two vectors.
  uint32_t *sum[2] = {allocate<uint32_t>(bytes), allocate<uint32_t>(bytes)};
  uint32_t *b = allocate<uint32_t>(bytes);
  allocate_rest(o);
  std::vector<uint32_t> first = values(n, 1), added = values(n, 2), back(n);
  CUDA(cudaMemcpy(sum[0], first.data(), bytes, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(b, added.data(), bytes, cudaMemcpyHostToDevice));
  t.loaded = now();
  Windows w(n, o.work);
  for (size_t s = 0; s < o.steps; ++s) {
    size_t at = w.first(s), from = w.pass(s) % 2;
    add<<<blocks(w.size), kThreads>>>(sum[from] + at, b + at, sum[1 - from] + at, w.size);
    stepped(o, s);
  }
  t.computed = now();
  for (size_t side = 0; side < 2; ++side) {
    CUDA(cudaMemcpy(back.data(), sum[side], bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; ++i) {
      size_t passes = w.passes(i, o.steps);
      if (passes % 2 == side) CHECK(back[i] == first[i] + static_cast<uint32_t>(passes) * added[i]);
    }
  }
  return passed(t);
}
