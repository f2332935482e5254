// SPDX-License-Identifier: Apache-2.0
//
// future VERSION [newer]: what a runtime of that CUDA version does. Asks the driver for entries,
// prints "asked", waits while the file "pause" exists, calls those that are newer than ckpt, prints
// "called" and waits while the file "hold" exists. Without a second argument it calls none of them,
// and prints the result of an entry that has different forms for different versions of the program
// and of the driver.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

static CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

template <class F>
static F ask(const char *name, int version) {
  void *found = nullptr;
  CUdriverProcAddressQueryResult result{};
  if (get(name, &found, version, 0, &result) != CUDA_SUCCESS || found == nullptr) {
    std::printf("no %s\n", name);
    std::exit(3);
  }
  return reinterpret_cast<F>(found);
}

#define CHECK(call)                                   \
  if (CUresult e_ = (call); e_ != CUDA_SUCCESS) {     \
    std::printf("line %d: error %d\n", __LINE__, e_); \
    std::exit(4);                                     \
  }

static void wait_while_exists(const char *file) {
  while (access(file, F_OK) == 0) usleep(10000);
}

int main(int argc, char **argv) {
  int version = argc > 1 ? std::atoi(argv[1]) : 0;
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  get = reinterpret_cast<decltype(get)>(dlsym(library, "cuGetProcAddress_v2"));
  CHECK(ask<CUresult (*)(unsigned)>("cuInit", version)(0));
  CUcontext context;
  CHECK(ask<CUresult (*)(CUcontext *, CUdevice)>("cuDevicePrimaryCtxRetain", version)(&context, 0));
  CHECK(ask<CUresult (*)(CUcontext)>("cuCtxSetCurrent", version)(context));
  CUdeviceptr p = 0;
  CHECK(ask<CUresult (*)(CUdeviceptr *, size_t)>("cuMemAlloc", version)(&p, 4096));
  auto copy = ask<CUresult (*)(void *, CUdeviceptr, size_t)>("cuMemcpyDtoH", version);
  bool newer = argc > 2;
  using Fill = CUresult (*)(CUdeviceptr, float, size_t, int, int, int, int, int);
  using Set = CUresult (*)(CUdeviceptr, unsigned char, size_t, unsigned);
  Fill fill = newer ? ask<Fill>("cuMemsetFuture", version) : nullptr;
  Set set = newer ? ask<Set>("cuMemsetD8", version) : nullptr;
  std::printf("asked\n");
  std::fflush(stdout);
  wait_while_exists("pause");
  float values[1024] = {};
  if (newer) {
    CHECK(fill(p, 1.5f, 1024, 2, 3, 4, 5, 6));
    CHECK(fill(p, 2.5f, 512, 2, 3, 4, 5, 6));
    CHECK(copy(values, p, sizeof values));
    std::printf("%g %g\n", values[0], values[1023]);
    CHECK(set(p, 0, 4096, 1));
  } else {
    // The form of CUDA 13.1 refuses this mode, and that of CUDA 10 has no such parameter.
    using Launch = CUresult (*)(CUstream, CUhostFn, void *, unsigned mode);
    auto launch = ask<Launch>("cuLaunchHostFunc", version);
    std::printf("%d\n", launch(
                            nullptr, [](void *) {}, nullptr, 12345));
  }
  CHECK(copy(values, p, sizeof values));
  std::printf("called\n");
  std::fflush(stdout);
  wait_while_exists("hold");
  return 0;
}
