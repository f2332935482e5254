// SPDX-License-Identifier: Apache-2.0
//
// A linked list in device memory: pointers that must stay valid.
#pragma once

#include "check.h"

struct Node {
  Node *next;
  unsigned value;
};

static __global__ void walk(Node *first, unsigned *sum) {
  unsigned s = 0;
  for (Node *p = first; p != nullptr; p = p->next) s = s * 31 + p->value++;
  *sum += s;
}

// The values are n - 1, n - 2, … 0.
static Node *make_list(int n) {
  Node *next = nullptr;
  for (int i = 0; i < n; ++i) {
    Node host{next, static_cast<unsigned>(i)};
    Node *p;
    CUDA(cudaMalloc(&p, sizeof(Node)));
    CUDA(cudaMemcpy(p, &host, sizeof host, cudaMemcpyHostToDevice));
    next = p;
  }
  return next;
}
