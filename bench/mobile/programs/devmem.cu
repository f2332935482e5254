// SPDX-License-Identifier: Apache-2.0
//
// devmem: bandWidth with its vectors in device variables. Their size is set at compile time
// (-DDEVMEM_MIB=N), and --mib must be equal. --work counts elements.
#include "cuda.h"

using namespace mobile;

#ifndef DEVMEM_MIB
#define DEVMEM_MIB 12
#endif

constexpr size_t kElements = DEVMEM_MIB / 6 * ((2 << 20) / sizeof(uint32_t));
__device__ uint32_t to[kElements], fro[kElements], added[kElements];

__global__ void add(bool back, size_t first, size_t n) {
  size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  i += first;
  if (back)
    to[i] = fro[i] + added[i];
  else
    fro[i] = to[i] + added[i];
}

int main(int argc, char **argv) {
  Options o = read_options(argc, argv);
  CHECK(o.mib == DEVMEM_MIB);
  Times t;
  allocate_rest(o);
  std::vector<uint32_t> first = values(kElements, 1), plus = values(kElements, 2), end(kElements);
  CUDA(cudaMemcpyToSymbol(to, first.data(), sizeof to));
  CUDA(cudaMemcpyToSymbol(added, plus.data(), sizeof added));
  t.loaded = now();
  Windows w(kElements, o.work);
  for (size_t s = 0; s < o.steps; ++s) {
    add<<<blocks(w.size), kThreads>>>(w.pass(s) % 2 == 1, w.first(s), w.size);
    stepped(o, s);
  }
  t.computed = now();
  for (size_t side = 0; side < 2; ++side) {
    if (side == 0)
      CUDA(cudaMemcpyFromSymbol(end.data(), to, sizeof to));
    else
      CUDA(cudaMemcpyFromSymbol(end.data(), fro, sizeof fro));
    for (size_t i = 0; i < kElements; ++i) {
      size_t passes = w.passes(i, o.steps);
      if (passes % 2 == side) CHECK(end[i] == first[i] + static_cast<uint32_t>(passes) * plus[i]);
    }
  }
  return passed(t);
}
