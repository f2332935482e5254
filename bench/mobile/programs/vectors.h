// SPDX-License-Identifier: Apache-2.0
//
// The kernel that bandWidth and pcie share: a vector addition.
#pragma once

#ifdef __CUDACC__
#include "cuda.h"

__global__ void add(const uint32_t *a, const uint32_t *b, uint32_t *c, size_t n) {
  size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
#else
#include "opencl.h"

const char *const kAdd = R"(
kernel void add(global const uint *a, global const uint *b, global uint *c) {
  size_t i = get_global_id(0);
  c[i] = a[i] + b[i];
})";
#endif
