// SPDX-License-Identifier: Apache-2.0
//
// A parent and a child that both compute; the child starts OpenCL after fork and exec. Each also
// forks a process without exec: OpenCL does not work there, and must not disturb the parent's.
#include <sys/wait.h>

#include "cl_test.h"

static int compute(const char *name) {
  Cl cl;
  std::vector<int> data(1000, 1);
  cl_mem m = cl.buffer(4000, CL_MEM_COPY_HOST_PTR, data.data());
  cl_kernel k =
      cl.kernel(cl.build("__kernel void f(__global int *d) { d[get_global_id(0)] += 1; }"), "f");
  CL(clSetKernelArg(k, 0, sizeof m, &m));
  size_t global = 1000;
  CL(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
  CL(clFinish(cl.queue));
  pid_t forked = ::fork();
  if (forked == 0) {
    int x;  // the call must fail without hanging or reaching the parent's queue
    cl_int status = clEnqueueReadBuffer(cl.queue, m, CL_TRUE, 0, 4, &x, 0, nullptr, nullptr);
    ::_exit(status == CL_SUCCESS ? 1 : 0);
  }
  int code = -1;
  while (::waitpid(forked, &code, 0) < 0) {
  }
  EXPECT(code == 0);
  std::printf("%s ", name);
  pause_here();
  CL(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
  EXPECT(cl.read_ints(m, 1000)[999] == 3);
  return finish();
}

int main(int argc, char **argv) {
  if (argc > 1) return compute("child");
  pid_t child = ::fork();
  if (child == 0) {
    ::execl(argv[0], argv[0], "child", nullptr);
    ::_exit(127);
  }
  int mine = compute("parent"), code = -1;
  while (::waitpid(child, &code, 0) < 0) {
  }
  return mine || code;
}
