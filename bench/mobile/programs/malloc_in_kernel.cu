// SPDX-License-Identifier: Apache-2.0
//
// malloc_in_kernel: kernels build lists in the device heap, which the host cannot see. The heap has
// a third of --mib. --work counts threads.
#include "cuda.h"

using namespace mobile;

struct Node {
  Node *next;
  uint32_t value;
};

constexpr size_t kLists = 256;  // the first threads of each step add a node to each
constexpr size_t kRounds = 64;  // of arithmetic in each thread

__host__ __device__ uint32_t stir(uint32_t x) {
  for (size_t r = 0; r < kRounds; ++r) x = x * 1664525u + 1013904223u;
  return x;
}

__global__ void grow(Node **lists, uint32_t *results, size_t n, uint32_t step) {
  size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  results[i] = stir(static_cast<uint32_t>(i) + step);
  if (i >= kLists) return;
  Node *node = static_cast<Node *>(malloc(sizeof(Node)));
  if (node == nullptr) return;
  *node = {lists[i], results[i]};
  lists[i] = node;
}

__global__ void sum_and_free(Node **lists, uint32_t *results) {
  size_t i = threadIdx.x;
  uint32_t sum = 0;
  for (Node *node = lists[i]; node != nullptr;) {
    Node *next = node->next;
    sum += node->value;
    free(node);
    node = next;
  }
  results[i] = sum;
}

int main(int argc, char **argv) {
  Options o = read_options(argc, argv);
  if (o.work < kLists) o.work = kLists;
  Times t;
  size_t bytes = vector_bytes(o);
  CHECK(o.work <= bytes / sizeof(uint32_t));
  CUDA(cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes));
  uint32_t *results = allocate<uint32_t>(bytes);
  Node **lists = allocate<Node *>(bytes);
  allocate_rest(o);
  CUDA(cudaMemset(lists, 0, kLists * sizeof(Node *)));
  t.loaded = now();
  for (size_t s = 0; s < o.steps; ++s) {
    grow<<<blocks(o.work), kThreads>>>(lists, results, o.work, static_cast<uint32_t>(s));
    stepped(o, s);
  }
  t.computed = now();
  sum_and_free<<<1, kLists>>>(lists, results);
  uint32_t sums[kLists];
  CUDA(cudaMemcpy(sums, results, sizeof sums, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < kLists; ++i) {
    uint32_t sum = 0;
    for (size_t s = 0; s < o.steps; ++s) sum += stir(static_cast<uint32_t>(i + s));
    CHECK(sums[i] == sum);
  }
  return passed(t);
}
