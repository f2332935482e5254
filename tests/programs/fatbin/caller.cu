// SPDX-License-Identifier: Apache-2.0
//
// Together with library.cu, a program of two translation units (-rdc=true).
__device__ int twice(int);

__global__ void kernel(int *p) { *p = twice(*p); }

int main() {
  kernel<<<1, 1>>>(nullptr);
  return 0;
}
