// SPDX-License-Identifier: Apache-2.0
//
// late NAME heap|variable MIB: a program that loads code late. Allocates MIB and prints "have MIB".
// While the file NAME-load exists it waits. Then it loads PTX with a kernel that calls malloc, or
// with a device variable of 60 MiB, prints "loaded" and runs it. While the file NAME-end exists it
// waits again, and finally checks the contents of its memory.
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "driver_check.h"

static const char *const kHeap = R"(
.version 7.0
.target sm_52
.address_size 64
.extern .func (.param .b64 func_retval0) malloc (.param .b64 malloc_param_0);
.visible .entry run(.param .u64 out) {
  .reg .b64 %rd<5>;
  .reg .b32 %r<2>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u64 %rd3, 1024;
  {
  .param .b64 param0;
  st.param.b64 [param0+0], %rd3;
  .param .b64 retval0;
  call.uni (retval0), malloc, (param0);
  ld.param.b64 %rd4, [retval0+0];
  }
  setp.ne.s64 %p1, %rd4, 0;
  selp.u32 %r1, 1, 0, %p1;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

static const char *const kVariable = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .global .align 8 .b8 large[62914560];
.visible .entry run(.param .u64 out) {
  .reg .b64 %rd<4>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, 1;
  mov.u64 %rd3, large;
  st.global.u32 [%rd3+62914556], %r1;
  ld.global.u32 %r2, [%rd3+62914556];
  st.global.u32 [%rd2], %r2;
  ret;
}
)";

static void wait_for_file(const char *name, const char *where) {
  std::string file = std::string(name) + "-" + where;
  while (access(file.c_str(), F_OK) == 0) usleep(2000);
}

static void say(const char *what, int mib) {
  std::printf("%s %d\n", what, mib);
  std::fflush(stdout);
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  bool heap = std::strcmp(argv[2], "heap") == 0;
  int mib = std::atoi(argv[3]);
  CUcontext context;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  CUdeviceptr memory, out;
  size_t words = (static_cast<size_t>(mib) << 20) / 4;
  OK(cuMemAlloc(&memory, words * 4));
  OK(cuMemsetD32(memory, 4711, words));
  OK(cuMemAlloc(&out, 4));
  OK(cuMemsetD32(out, 0, 1));
  say("have", mib);
  wait_for_file(argv[1], "load");
  CUmodule module;
  CUfunction run;
  OK(cuModuleLoadData(&module, heap ? kHeap : kVariable));
  say("loaded", 0);
  OK(cuModuleGetFunction(&run, module, "run"));
  void *parameters[] = {&out};
  OK(cuLaunchKernel(run, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  int ok = 0;
  OK(cuMemcpyDtoH(&ok, out, 4));
  CHECK(ok == 1);
  if (!heap) OK(cuModuleUnload(module));
  say("ran", 0);
  wait_for_file(argv[1], "end");
  std::vector<int> host(words);
  OK(cuMemcpyDtoH(host.data(), memory, words * 4));
  for (int word : host) CHECK(word == 4711);
  std::puts("PASSED");
  return 0;
}
