// SPDX-License-Identifier: Apache-2.0
//
// A kernel that runs for a while, so that a checkpoint must wait for it, and one that prints to
// standard output.
#include "cl_test.h"

int main(int, char **argv) {
  long loops = argv[1] ? std::atol(argv[1]) : 1000;
  Cl cl;
  cl_program p = cl.build(R"(
__kernel void spin(__global uint *d, ulong n) {
  uint x = d[0];
  for (ulong i = 0; i < n; i++) x = x * 1664525u + 1013904223u;
  d[0] = x;
}
__kernel void say(__global uint *d) { printf("kernel says %u\n", d[0]); }
)");
  unsigned seed = 1;
  cl_mem m = cl.buffer(4, CL_MEM_COPY_HOST_PTR, &seed);
  cl_kernel spin = cl.kernel(p, "spin"), say = cl.kernel(p, "say");
  cl_ulong n = static_cast<cl_ulong>(loops);
  CL(clSetKernelArg(spin, 0, sizeof m, &m));
  CL(clSetKernelArg(spin, 1, sizeof n, &n));
  CL(clSetKernelArg(say, 0, sizeof m, &m));
  CL(clEnqueueTask(cl.queue, spin, 0, nullptr, nullptr));
  CL(clFlush(cl.queue));
  std::printf("LAUNCHED\n");
  std::fflush(stdout);
  CL(clFinish(cl.queue));
  pause_here();
  CL(clEnqueueTask(cl.queue, say, 0, nullptr, nullptr));
  CL(clFinish(cl.queue));
  unsigned x = 1;
  for (long i = 0; i < loops; i++) x = x * 1664525u + 1013904223u;
  EXPECT(cl.read_ints(m, 1)[0] == static_cast<int>(x));
  return finish();
}
