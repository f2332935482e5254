// SPDX-License-Identifier: Apache-2.0
//
// The devices are lost while a read is deferred behind long kernels: the call that waits for it
// must return an error, because the bytes never arrive.
//
//   ocl-lost blocking|event|map LOOPS
#include "cl_test.h"

static const char *const kSource = R"(
__kernel void spin(__global uint *d, ulong n) {
  uint x = d[0];
  for (ulong i = 0; i < n; i++) x = x * 1664525u + 1013904223u;
  d[0] = x;
}
)";

static cl_int wait_for_event(const Cl &cl, cl_mem m) {
  unsigned x = 0;
  cl_event read;
  cl_int status = clEnqueueReadBuffer(cl.queue, m, CL_FALSE, 0, sizeof x, &x, 0, nullptr, &read);
  return status == CL_SUCCESS ? clWaitForEvents(1, &read) : status;
}

static cl_int read_blocking(const Cl &cl, cl_mem m) {
  unsigned x = 0;
  return clEnqueueReadBuffer(cl.queue, m, CL_TRUE, 0, sizeof x, &x, 0, nullptr, nullptr);
}

static cl_int map_blocking(const Cl &cl, cl_mem m) {
  cl_int status = CL_SUCCESS;
  clEnqueueMapBuffer(cl.queue, m, CL_TRUE, CL_MAP_READ, 0, sizeof(unsigned), 0, nullptr, nullptr,
                     &status);
  return status;
}

int main(int, char **argv) {
  Cl cl;
  unsigned seed = 1;
  cl_mem m = cl.buffer(sizeof seed, CL_MEM_COPY_HOST_PTR, &seed);
  cl_kernel spin = cl.kernel(cl.build(kSource), "spin");
  cl_ulong n = std::strtoull(argv[2], nullptr, 10);
  CL(clSetKernelArg(spin, 0, sizeof m, &m));
  CL(clSetKernelArg(spin, 1, sizeof n, &n));
  for (int i = 0; i < 4; i++) CL(clEnqueueTask(cl.queue, spin, 0, nullptr, nullptr));
  CL(clFlush(cl.queue));
  std::printf("LAUNCHED\n");
  std::fflush(stdout);
  std::string how = argv[1];
  cl_int status = how == "event"      ? wait_for_event(cl, m)
                  : how == "blocking" ? read_blocking(cl, m)
                                      : map_blocking(cl, m);
  std::printf("status %d\n", static_cast<int>(status));
  EXPECT(status < 0);
  return finish();
}
