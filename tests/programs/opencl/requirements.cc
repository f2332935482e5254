// SPDX-License-Identifier: Apache-2.0
//
// A program with requirements on its device: `fp64` computes in double precision, `big` has a
// buffer of 512 MiB, `group` launches work-groups of 4096, `limit` has read their largest size,
// `local` gives a kernel 64 KiB of local memory, `align` has a sub-buffer with the smallest
// alignment of its device.
#include "cl_test.h"

static void fp64(Cl &cl) {
  cl_kernel k = cl.kernel(cl.build("#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
                                   "__kernel void f(__global double *d) { d[0] = d[0] / 3.0; }"),
                          "f");
  double v = 1;
  cl_mem m = cl.buffer(8, CL_MEM_COPY_HOST_PTR, &v);
  CL(clSetKernelArg(k, 0, sizeof m, &m));
  pause_here();
  CL(clEnqueueTask(cl.queue, k, 0, nullptr, nullptr));
  CL(clEnqueueReadBuffer(cl.queue, m, CL_TRUE, 0, 8, &v, 0, nullptr, nullptr));
  EXPECT(v == 1.0 / 3.0);
}

static void big(Cl &cl) {
  constexpr size_t n = 128 << 20;
  cl_mem m = cl.buffer(n * sizeof(int));
  int value = 3;
  CL(clEnqueueFillBuffer(cl.queue, m, &value, 4, 0, n * 4, 0, nullptr, nullptr));
  CL(clFinish(cl.queue));
  pause_here();
  EXPECT(cl.read_ints(m, 1, n - 1)[0] == 3);
}

static void group(Cl &cl) {
  cl_kernel k =
      cl.kernel(cl.build("__kernel void f(__global int *d) { d[get_global_id(0)] = 1; }"), "f");
  cl_mem m = cl.buffer(4096 * 4);
  CL(clSetKernelArg(k, 0, sizeof m, &m));
  size_t size = 4096;
  CL(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &size, &size, 0, nullptr, nullptr));
  CL(clFinish(cl.queue));
  pause_here();
  EXPECT(cl.read_ints(m, 1)[0] == 1);
}

static void limit(Cl &cl) {
  size_t most = 0;
  CL(clGetDeviceInfo(cl.device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof most, &most, nullptr));
  std::printf("work-groups of %zu\n", most);
  pause_here();
}

static void local(Cl &cl) {
  cl_kernel k = cl.kernel(cl.build("__kernel void f(__global int *d, __local int *l) {"
                                   "  l[16383] = 7; d[0] = l[16383]; }"),
                          "f");
  cl_mem m = cl.buffer(4);
  CL(clSetKernelArg(k, 0, sizeof m, &m));
  CL(clSetKernelArg(k, 1, 64 << 10, nullptr));
  CL(clEnqueueTask(cl.queue, k, 0, nullptr, nullptr));
  CL(clFinish(cl.queue));
  pause_here();
  EXPECT(cl.read_ints(m, 1)[0] == 7);
}

static void align(Cl &cl) {
  cl_int status;
  cl_mem m = cl.buffer(4096);
  cl_buffer_region region{128, 128};
  cl_mem part = clCreateSubBuffer(m, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
  CL(status);
  int value = 5;
  CL(clEnqueueFillBuffer(cl.queue, part, &value, 4, 0, 128, 0, nullptr, nullptr));
  CL(clFinish(cl.queue));
  pause_here();
  EXPECT(cl.read_ints(m, 1, 32)[0] == 5);
}

int main(int, char **argv) {
  Cl cl;
  std::string what = argv[1] ? argv[1] : "";
  if (what == "fp64") fp64(cl);
  if (what == "big") big(cl);
  if (what == "group") group(cl);
  if (what == "limit") limit(cl);
  if (what == "local") local(cl);
  if (what == "align") align(cl);
  return finish();
}
