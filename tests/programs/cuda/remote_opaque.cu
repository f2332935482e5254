// SPDX-License-Identifier: Apache-2.0
//
// A program with a texture, in a test that moves it, and code of which ckpt cannot see whether it
// uses textures, in files:
//
//   remote_opaque MIXED CUBIN   MIXED has PTX and a cubin without PTX of its architecture, CUBIN has
//                               no PTX. Prints "step N" after each step:
//     1  MIXED is loaded, and then a texture made
//     2  neither exists any more, and another texture was made
//     3  MIXED is loaded, and its kernel was run; CUBIN is refused
//   remote_opaque LIBRARY       a library with device code, which is opened, but runs no kernel; step 1:
//                               a texture was made
//
// With -DCODE it is the code in these files.
#ifdef CODE
extern "C" __global__ void add(int *p) { *p += 5; }
#else
#include <cuda.h>
#include <dlfcn.h>

#include "wanted_steps.h"

#define OK(call) CHECK((call) == CUDA_SUCCESS)

__global__ void look(cudaTextureObject_t t, int *out) { *out = tex1Dfetch<int>(t, 3); }

struct Program {
  int *numbers, *out, found = 0;

  Program() {
    const int kNumbers[4] = {2, 3, 5, 7};
    CUDA(cudaMalloc(&numbers, sizeof kNumbers));
    CUDA(cudaMalloc(&out, sizeof *out));
    CUDA(cudaMemcpy(numbers, kNumbers, sizeof kNumbers, cudaMemcpyHostToDevice));
  }
  cudaTextureObject_t texture() {
    cudaResourceDesc r{};
    cudaTextureDesc d{};
    r.resType = cudaResourceTypeLinear;
    r.res.linear = {numbers, cudaCreateChannelDesc<int>(), 16};
    cudaTextureObject_t t;
    CUDA(cudaCreateTextureObject(&t, &r, &d, nullptr));
    return t;
  }
  void check(cudaTextureObject_t t) {
    look<<<1, 1>>>(t, out);
    CUDA(cudaMemcpy(&found, out, sizeof found, cudaMemcpyDeviceToHost));
    CHECK(found == 7);
  }
  void add(CUmodule m) {
    CUfunction f;
    void *parameters[] = {&out};
    OK(cuModuleGetFunction(&f, m, "add"));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
    CUDA(cudaMemcpy(&found, out, sizeof found, cudaMemcpyDeviceToHost));
    CHECK(found == 12);
  }
};

void beside_library(Program &p, const char *library) {
  CHECK(dlopen(library, RTLD_NOW));
  cudaTextureObject_t t = p.texture();
  p.check(t);
  wait_until_wanted(1);
  p.check(t);
}

int main(int argc, char **argv) {
  Program p;
  CUmodule mixed, cubin;
  if (argc == 2) return beside_library(p, argv[1]), passed();
  OK(cuModuleLoad(&mixed, argv[1]));
  cudaTextureObject_t t = p.texture();
  p.check(t);
  p.add(mixed);
  wait_until_wanted(1);
  p.check(t);
  CUDA(cudaDestroyTextureObject(t));
  OK(cuModuleUnload(mixed));
  t = p.texture();
  p.check(t);
  wait_until_wanted(2);
  p.check(t);
  OK(cuModuleLoad(&mixed, argv[1]));
  p.add(mixed);
  CHECK(cuModuleLoad(&cubin, argv[2]) == CUDA_ERROR_NOT_SUPPORTED);
  wait_until_wanted(3);
  p.check(t);
  p.add(mixed);
  return passed();
}
#endif
