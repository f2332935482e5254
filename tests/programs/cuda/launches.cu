// SPDX-License-Identifier: Apache-2.0
//
// Kernels that launch kernels: nvcc -rdc=true, linked with libcudadevrt.
#include <cstring>

#include "check.h"

struct Pair {
  char tag;
  double value;
};

// Each grid appends its number, so the order of grids is visible.
struct Log {
  int count;
  int entries[4000];
};
__global__ void note(Log *log, int number) {
  if (threadIdx.x == 0 && blockIdx.x == 0) log->entries[atomicAdd(&log->count, 1)] = number;
}
__global__ void note_with_children(Log *log, int number) {
  note<<<1, 1>>>(log, 10 * number + 1);
  note<<<1, 1, 0, cudaStreamTailLaunch>>>(log, 10 * number + 3);
  note<<<1, 1>>>(log, 10 * number + 2);
  log->entries[atomicAdd(&log->count, 1)] = number;
}
__global__ void parent(Log *log) {
  note_with_children<<<1, 1>>>(log, 1);
  note<<<1, 1, 0, cudaStreamTailLaunch>>>(log, 9);
  note_with_children<<<1, 1>>>(log, 2);
  log->entries[atomicAdd(&log->count, 1)] = 0;
}

// Named streams and events.
__global__ void streams(Log *log) {
  cudaStream_t a, b;
  cudaEvent_t e;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
  note<<<1, 1, 0, a>>>(log, 1);
  cudaEventRecord(e, a);
  cudaStreamWaitEvent(b, e, 0);
  note<<<1, 1, 0, b>>>(log, 2);
  note<<<1, 1, 0, cudaStreamFireAndForget>>>(log, 3);
  if (a == b || cudaGetLastError() != cudaSuccess) log->count = 1000;
  cudaEventDestroy(e);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
}

// Arguments of different sizes, several blocks, dynamic shared memory.
__global__ void fill(int *out, Pair p, short s, int n) {
  extern __shared__ int part[];
  part[threadIdx.x] = int(p.value) + p.tag + s;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = part[blockDim.x - 1 - threadIdx.x] + i;
}
__global__ void fill_by_child(int *out, int n) {
  // Every thread launches for its own piece.
  int each = n / blockDim.x;
  fill<<<dim3((each + 31) / 32), 32, 32 * sizeof(int)>>>(out + threadIdx.x * each, Pair{'a', 5.5}, short(threadIdx.x),
                                                         each);
}

// A tree of grids, and a grid that launches itself again and again.
__global__ void tree(int *count, int depth) {
  atomicAdd(count, 1);
  if (depth > 0) tree<<<1, 2>>>(count, depth - 1);
}
__global__ void again(int *count) {
  if (++*count < 3000) again<<<1, 1, 0, cudaStreamTailLaunch>>>(count);
}

__global__ void too_large() { note<<<1, 2000>>>(nullptr, 0); }

void expect(Log *log, std::vector<int> wanted) {
  CUDA(cudaDeviceSynchronize());
  CHECK(log->count == int(wanted.size()));
  CHECK(std::memcmp(log->entries, wanted.data(), wanted.size() * sizeof(int)) == 0);
  std::memset(log, 0, sizeof *log);
}

int main(int argc, char **) {
  if (argc > 1) {
    too_large<<<1, 1>>>();
    // On a GPU the kernel would go on, and find the error by cudaGetLastError().
    CHECK(cudaDeviceSynchronize() != cudaSuccess);
    return passed();
  }
  Log *log;
  CUDA(cudaMallocManaged(&log, sizeof *log));
  std::memset(log, 0, sizeof *log);
  // What the host launches later comes after all grids of the first one.
  parent<<<1, 1>>>(log);
  note<<<1, 1>>>(log, 100);
  expect(log, {0, 1, 11, 12, 13, 2, 21, 22, 23, 9, 100});
  streams<<<1, 1>>>(log);
  expect(log, {1, 2, 3});

  const int n = 32 * 70;
  int *out, *count;
  CUDA(cudaMallocManaged(&out, n * sizeof(int)));
  fill_by_child<<<1, 32>>>(out, n);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) CHECK(out[i] == 5 + 'a' + i / 70 + i % 70);

  CUDA(cudaMallocManaged(&count, sizeof(int)));
  *count = 0;
  tree<<<1, 2>>>(count, 7);
  CUDA(cudaDeviceSynchronize());
  CHECK(*count == 2 * 255);
  *count = 0;
  again<<<1, 1>>>(count);
  CUDA(cudaDeviceSynchronize());
  CHECK(*count == 3000);
  return passed();
}
