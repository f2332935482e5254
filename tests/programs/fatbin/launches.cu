// SPDX-License-Identifier: Apache-2.0
//
// Dynamic parallelism: a kernel that launches a kernel and, with -DALLOCATES, calls cudaMalloc.
__global__ void child(int *p) { *p = 1; }

__global__ void parent(int *p) {
#ifdef ALLOCATES
  void *q;
  cudaMalloc(&q, 4);
#endif
  child<<<1, 1>>>(p);
}

int main() {
  parent<<<1, 1>>>(nullptr);
  return 0;
}
