// SPDX-License-Identifier: Apache-2.0
//
// map: kernels work on pinned host memory that is mapped into the device, and on vectors in device
// memory. --work counts elements.
#include "cuda.h"

using namespace mobile;

__global__ void add(uint32_t *mapped, const uint32_t *b, uint32_t *c, size_t n) {
  size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < n) c[i] = mapped[i] += b[i];
}

int main(int argc, char **argv) {
  Options o = read_options(argc, argv);
  Times t;
  size_t bytes = vector_bytes(o), n = bytes / sizeof(uint32_t);
  uint32_t *host = nullptr, *mapped = nullptr;
  CUDA(cudaHostAlloc(reinterpret_cast<void **>(&host), bytes, cudaHostAllocMapped));
  CUDA(cudaHostGetDevicePointer(reinterpret_cast<void **>(&mapped), host, 0));
  uint32_t *b = allocate<uint32_t>(bytes), *c = allocate<uint32_t>(bytes);
  allocate<uint32_t>(bytes);
  allocate_rest(o);
  std::vector<uint32_t> first = values(n, 1), added = values(n, 2), back(n);
  std::memcpy(host, first.data(), bytes);
  CUDA(cudaMemcpy(b, added.data(), bytes, cudaMemcpyHostToDevice));
  CUDA(cudaMemset(c, 0, bytes));
  t.loaded = now();
  Windows w(n, o.work);
  for (size_t s = 0; s < o.steps; ++s) {
    size_t at = w.first(s);
    add<<<blocks(w.size), kThreads>>>(mapped + at, b + at, c + at, w.size);
    stepped(o, s);
  }
  t.computed = now();
  CUDA(cudaMemcpy(back.data(), c, bytes, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < n; ++i) {
    uint32_t passes = static_cast<uint32_t>(w.passes(i, o.steps));
    CHECK(host[i] == first[i] + passes * added[i]);
    CHECK(back[i] == (passes > 0 ? host[i] : 0));
  }
  return passed(t);
}
