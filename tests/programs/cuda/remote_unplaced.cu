// SPDX-License-Identifier: Apache-2.0
//
// Code with a managed variable, in files:
//
//   remote_unplaced FILE REFUSED…   FILE has PTX. The files REFUSED have none.
//
// With -DCODE it is the code in these files.
#ifdef CODE
__managed__ int counter = 4;
extern "C" __global__ void count() { counter += 1; }
#else
#include "driver_check.h"

int main(int argc, char **argv) {
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUlibrary library;
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  for (int i = 2; i < argc; i++) {
    CHECK(cuModuleLoad(&module, argv[i]) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cuLibraryLoadFromFile(&library, argv[i], nullptr, nullptr, 0, nullptr, nullptr, 0) ==
          CUDA_ERROR_NOT_SUPPORTED);
  }
  CUfunction count;
  CUdeviceptr counter;
  size_t bytes = 0;
  OK(cuModuleLoad(&module, argv[1]));
  OK(cuModuleGetGlobal(&counter, &bytes, module, "counter"));
  OK(cuModuleGetFunction(&count, module, "count"));
  OK(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  OK(cuCtxSynchronize());
  CHECK(bytes == sizeof(int) && *reinterpret_cast<int *>(counter) == 5);
  std::puts("PASSED");
}
#endif
