// SPDX-License-Identifier: Apache-2.0
//
// The C++ libraries of the toolkit: Thrust and CUB, cuda::atomic, cuda::barrier.
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <algorithm>
#include <cuda/atomic>
#include <cuda/barrier>

#include "check.h"

using Atomic = cuda::atomic<int, cuda::thread_scope_device>;

__global__ void count(Atomic *a) { a->fetch_add(1); }
__global__ void meet(int *out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> b;
  if (threadIdx.x == 0) init(&b, blockDim.x);
  __syncthreads();
  out[threadIdx.x] = threadIdx.x;
  b.arrive_and_wait();
  if (threadIdx.x == 0) out[0] = out[63];
}

int main() {
  const int n = 20000;
  thrust::device_vector<int> v(n);
  thrust::sequence(v.begin(), v.end());
  CHECK(thrust::reduce(v.begin(), v.end(), 0L) == long(n) * (n - 1) / 2);
  thrust::inclusive_scan(v.begin(), v.end(), v.begin());
  CHECK(v[n - 1] == int(long(n) * (n - 1) / 2));
  std::vector<unsigned> host(n), back(n);
  for (int i = 0; i < n; ++i) host[i] = (i * 2654435761u) >> 7;
  thrust::device_vector<unsigned> keys = host;
  thrust::sort(keys.begin(), keys.end());
  std::sort(host.begin(), host.end());
  thrust::copy(keys.begin(), keys.end(), back.begin());
  CHECK(back == host);
  int *out;
  Atomic *a;
  CUDA(cudaMallocManaged(&out, 64 * sizeof(int)));
  CUDA(cudaMallocManaged(&a, sizeof(Atomic)));
  count<<<3, 64>>>(a);
  meet<<<1, 64>>>(out);
  CUDA(cudaDeviceSynchronize());
  CHECK(*reinterpret_cast<int *>(a) == 192 && out[0] == 63);
  return passed();
}
