// SPDX-License-Identifier: Apache-2.0
//
// Non-blocking reads and never a write: they cost no memory when they have finished, and a released
// context is destroyed.
#define CL_TARGET_OPENCL_VERSION 300
#include <malloc.h>

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

int main() {
  check_memory();
  check_context();
  return finish();
}
