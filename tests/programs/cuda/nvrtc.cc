// SPDX-License-Identifier: Apache-2.0
//
// Compiles a kernel for a real architecture with NVRTC, and loads the cubin.
#include <nvrtc.h>

#include <cstring>
#include <vector>

#include "driver_check.h"

static const char kSource[] =
    "extern \"C\" __global__ void store(int *p) { *p = 3 * threadIdx.x + 4; }";

int main() {
  CUcontext c;
  OK(cuInit(0));
  OK(cuCtxCreate(&c, nullptr, 0, 0));
  nvrtcProgram program;
  const char *options[] = {"--gpu-architecture=sm_90"};
  CHECK(nvrtcCreateProgram(&program, kSource, "store.cu", 0, nullptr, nullptr) == NVRTC_SUCCESS);
  CHECK(nvrtcCompileProgram(program, 1, options) == NVRTC_SUCCESS);
  size_t bytes = 0;
  CHECK(nvrtcGetCUBINSize(program, &bytes) == NVRTC_SUCCESS && bytes > 0);
  std::vector<char> cubin(bytes);
  CHECK(nvrtcGetCUBIN(program, cubin.data()) == NVRTC_SUCCESS);
  CHECK(nvrtcDestroyProgram(&program) == NVRTC_SUCCESS);
  CUmodule module;
  CUfunction f;
  CUdeviceptr p;
  int value = 0;
  OK(cuModuleLoadData(&module, cubin.data()));
  OK(cuModuleGetFunction(&f, module, "store"));
  OK(cuMemAlloc(&p, 4));
  void *args[] = {&p};
  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr));
  OK(cuMemcpyDtoH(&value, p, 4));
  CHECK(value == 4);
  std::puts("PASSED");
}
