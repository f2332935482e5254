// SPDX-License-Identifier: Apache-2.0
//
// malloc_in_kernel: lists on the device's heap, which nobody can track or save: it needs a GPU for
// itself (MC-15).
#include "mobile.h"

struct Node {
  Node *next;
  int value;
};

constexpr int kThreads = 256, kNodes = 16;

__global__ void make(Node **lists, int round) {
  Node *head = nullptr;
  for (int i = 0; i < kNodes; ++i) {
    Node *n = static_cast<Node *>(malloc(sizeof(Node)));
    if (n == nullptr) break;
    n->next = head;
    n->value = round + i;
    head = n;
  }
  lists[threadIdx.x] = head;
}

__global__ void sum(Node **lists, int *sums) {
  int s = 0;
  for (Node *n = lists[threadIdx.x]; n != nullptr;) {
    Node *next = n->next;
    s += n->value;
    free(n);
    n = next;
  }
  sums[threadIdx.x] = s;
}

int main(int argc, char **argv) {
  Size s = size_of(argc, argv);
  Node **lists;
  int *sums, host[kThreads];
  void *ballast;
  CUDA(cudaMalloc(&ballast, s.bytes));
  CUDA(cudaMalloc(&lists, kThreads * sizeof *lists));
  CUDA(cudaMalloc(&sums, sizeof host));
  for (int r = 0; r < s.rounds; ++r) {
    make<<<1, kThreads>>>(lists, r);
    sum<<<1, kThreads>>>(lists, sums);
    CUDA(cudaMemcpy(host, sums, sizeof host, cudaMemcpyDeviceToHost));
    for (int v : host) CHECK(v == kNodes * r + kNodes * (kNodes - 1) / 2);
  }
  return passed();
}
