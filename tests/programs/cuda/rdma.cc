// SPDX-License-Identifier: Apache-2.0
//
// Prints whether memory of cuMemAlloc can be registered by other devices (GPUDirect RDMA).
#include <cuda.h>

#include <cstdio>

int main() {
  CUcontext context;
  CUdeviceptr p = 0;
  int capable = -1;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&p, 4 << 20) != CUDA_SUCCESS)
    return 1;
  bool value = false;
  if (cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, p) ==
      CUDA_SUCCESS)
    capable = value;
  std::printf("capable %d\n", capable);
  return 0;
}
