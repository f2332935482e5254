// SPDX-License-Identifier: Apache-2.0
//
// A function that the software device refuses: it says so once, and the program goes on.
#include "check.h"

int main() {
  cudaGraph_t g;
  cudaGraphConditionalHandle handle;
  CUDA(cudaGraphCreate(&g, 0));
  for (int i = 0; i < 2; ++i) CHECK(cudaGraphConditionalHandleCreate(&handle, g, 0, 0) == cudaErrorNotSupported);
  cudaGetLastError();
  CUDA(cudaDeviceSynchronize());
  return passed();
}
