// SPDX-License-Identifier: Apache-2.0
//
// Non-blocking reads and never a write: they cost no memory when they have finished, and a released
// context is destroyed. In the child of a fork nothing waits for a pending one.
#define CL_TARGET_OPENCL_VERSION 300
#include <malloc.h>
#include <sys/wait.h>

#include "cl_test.h"

static void read_once(const Cl &cl, cl_mem m) {
  int x = 0;
  CL(clEnqueueReadBuffer(cl.queue, m, CL_FALSE, 0, sizeof x, &x, 0, nullptr, nullptr));
  CL(clFinish(cl.queue));
  EXPECT(x == 7);
}

static void check_memory() {
  int seven = 7;
  Cl cl;
  cl_mem m = cl.buffer(sizeof seven, CL_MEM_COPY_HOST_PTR, &seven);
  for (int i = 0; i < 1000; i++) read_once(cl, m);
  size_t before = ::mallinfo2().uordblks;
  for (int i = 0; i < 30'000; i++) read_once(cl, m);
  EXPECT(::mallinfo2().uordblks < before + (1u << 20));
}

static int g_destroyed = 0;
static void CL_CALLBACK destroyed(cl_context, void *) { g_destroyed++; }

static void check_context() {
  int seven = 7;
  Cl cl;
  CL(clSetContextDestructorCallback(cl.context, destroyed, nullptr));
  cl_mem m = cl.buffer(sizeof seven, CL_MEM_COPY_HOST_PTR, &seven);
  read_once(cl, m);
  CL(clReleaseMemObject(m));
  CL(clReleaseCommandQueue(cl.queue));
  CL(clReleaseContext(cl.context));
  EXPECT(g_destroyed == 1);
}

// The child's write is from memory that a read of the parent would still fill.
static void check_fork() {
  static const char *const kSpin =
      "__kernel void spin(__global uint *d, uint n) {"
      "  uint x = d[0];"
      "  for (uint i = 0; i < n; i++) x = x * 1664525u + 1013904223u;"
      "  d[0] = x;"
      "}";
  constexpr size_t kBytes = 1u << 20;
  Cl cl;
  unsigned seed = 1, loops = 1000;
  cl_mem small = cl.buffer(sizeof seed, CL_MEM_COPY_HOST_PTR, &seed), large = cl.buffer(kBytes);
  cl_kernel spin = cl.kernel(cl.build(kSpin), "spin");
  CL(clSetKernelArg(spin, 0, sizeof small, &small));
  // Short ones, so that what follows the long one is not deferred.
  for (int i = 0; i < 5; i++) {
    CL(clSetKernelArg(spin, 1, sizeof loops, &loops));
    CL(clEnqueueTask(cl.queue, spin, 0, nullptr, nullptr));
    CL(clFinish(cl.queue));
  }
  loops = 500'000'000;
  CL(clSetKernelArg(spin, 1, sizeof loops, &loops));
  std::vector<unsigned char> bytes(kBytes);
  CL(clEnqueueTask(cl.queue, spin, 0, nullptr, nullptr));
  CL(clEnqueueReadBuffer(cl.queue, small, CL_FALSE, 0, 4, bytes.data(), 0, nullptr, nullptr));
  CL(clFlush(cl.queue));
  pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(clEnqueueWriteBuffer(cl.queue, large, CL_TRUE, 0, kBytes, bytes.data(), 0, nullptr,
                                 nullptr) == CL_SUCCESS);
  }
  int code = -1;
  while (::waitpid(child, &code, 0) < 0) {
  }
  EXPECT(code == 0);
  CL(clFinish(cl.queue));
}

int main() {
  check_memory();
  check_context();
  check_fork();
  return finish();
}
