// SPDX-License-Identifier: Apache-2.0
//
// Each core function of OpenCL in turn: results and immediate errors. The output must be the same
// natively and under ckpt-run.
#include "cl_test.h"

#include <thread>

static const char *kSource = R"(
__kernel void fill(__global int *data, int value) { data[get_global_id(0)] = value; }
__kernel void hello(int times) {
  for (int i = 0; i < times; i++) printf("hello %d\n", i);
}
)";

static void rectangles(Cl &cl) {
  constexpr size_t row = 64, rows = 32, slices = 4;
  std::vector<unsigned char> host(row * rows * slices), back(host.size(), 0);
  for (size_t i = 0; i < host.size(); i++) host[i] = (unsigned char)(i * 7);
  cl_mem m = cl.buffer(host.size());
  unsigned char zero = 0;
  CL(clEnqueueFillBuffer(cl.queue, m, &zero, 1, 0, host.size(), 0, nullptr, nullptr));
  size_t buffer_origin[3] = {8, 2, 1}, host_origin[3] = {4, 1, 0}, region[3] = {16, 5, 2};
  CL(clEnqueueWriteBufferRect(cl.queue, m, CL_TRUE, buffer_origin, host_origin, region, row,
                              row * rows, row, row * rows, host.data(), 0, nullptr, nullptr));
  CL(clEnqueueReadBufferRect(cl.queue, m, CL_TRUE, buffer_origin, host_origin, region, row,
                             row * rows, row, row * rows, back.data(), 0, nullptr, nullptr));
  size_t same = 0;
  for (size_t z = 0; z < 2; z++)
    for (size_t y = 0; y < 5; y++)
      for (size_t x = 0; x < 16; x++) {
        size_t i = z * row * rows + (y + 1) * row + x + 4;
        same += back[i] == host[i];
      }
  EXPECT(same == 16 * 5 * 2);
  cl_mem other = cl.buffer(host.size());
  size_t to[3] = {0, 0, 0};
  CL(clEnqueueCopyBufferRect(cl.queue, m, other, buffer_origin, to, region, row, row * rows, 16,
                             16 * 5, 0, nullptr, nullptr));
  unsigned char got[160];
  CL(clEnqueueReadBuffer(cl.queue, other, CL_TRUE, 0, sizeof got, got, 0, nullptr, nullptr));
  EXPECT(got[0] == host[row + 4] && got[16] == host[2 * row + 4]);
  region[0] = row + 1;
  EXPECT(clEnqueueReadBufferRect(cl.queue, m, CL_TRUE, buffer_origin, host_origin, region, row, 0,
                                 row, 0, back.data(), 0, nullptr, nullptr) == CL_INVALID_VALUE);
}

static void transfers(Cl &cl) {
  std::vector<int> a(1000), b(1000, -1);
  for (int i = 0; i < 1000; i++) a[i] = i;
  cl_mem m = cl.buffer(4000), copy = cl.buffer(4000);
  cl_event e[3];
  CL(clEnqueueWriteBuffer(cl.queue, m, CL_FALSE, 0, 4000, a.data(), 0, nullptr, &e[0]));
  CL(clEnqueueCopyBuffer(cl.queue, m, copy, 0, 2000, 2000, 1, e, &e[1]));
  CL(clEnqueueReadBuffer(cl.queue, copy, CL_FALSE, 2000, 2000, b.data(), 1, &e[1], &e[2]));
  CL(clWaitForEvents(1, &e[2]));
  EXPECT(b[0] == 0 && b[499] == 499 && b[500] == -1);
  // Host memory is read when the command runs: the write sends the bytes of the earlier read.
  int marker = 424242;
  cl_mem from = cl.buffer(4, CL_MEM_COPY_HOST_PTR, &marker), into = cl.buffer(4);
  int passing = 0;
  CL(clEnqueueReadBuffer(cl.queue, from, CL_FALSE, 0, 4, &passing, 0, nullptr, nullptr));
  CL(clEnqueueWriteBuffer(cl.queue, into, CL_FALSE, 0, 4, &passing, 0, nullptr, nullptr));
  EXPECT(cl.read_ints(into, 1)[0] == 424242);
  cl_command_type type;
  CL(clGetEventInfo(e[1], CL_EVENT_COMMAND_TYPE, sizeof type, &type, nullptr));
  EXPECT(type == CL_COMMAND_COPY_BUFFER);
  for (cl_event x : e) CL(clReleaseEvent(x));
  EXPECT(clEnqueueReadBuffer(cl.queue, m, CL_TRUE, 0, 4001, b.data(), 0, nullptr, nullptr) ==
         CL_INVALID_VALUE);
  EXPECT(clEnqueueCopyBuffer(cl.queue, m, m, 0, 100, 200, 0, nullptr, nullptr) ==
         CL_MEM_COPY_OVERLAP);
  EXPECT(clEnqueueReadBuffer(nullptr, m, CL_TRUE, 0, 4, b.data(), 0, nullptr, nullptr) ==
         CL_INVALID_COMMAND_QUEUE);
  CL(clReleaseMemObject(m));
}

static void errors_at_once(Cl &cl) {
  cl_int status;
  cl_program p = cl.build(kSource);
  cl_kernel k = cl.kernel(p, "fill");
  cl_mem m = cl.buffer(4096);
  size_t global = 64, local = 7, huge = 1 << 20;
  EXPECT(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &global, nullptr, 0, nullptr, nullptr) ==
         CL_INVALID_KERNEL_ARGS);
  int value = 3;
  EXPECT(clSetKernelArg(k, 2, 4, &value) == CL_INVALID_ARG_INDEX);
  EXPECT(clSetKernelArg(k, 1, 2, &value) == CL_INVALID_ARG_SIZE);
  CL(clSetKernelArg(k, 0, sizeof m, &m));
  CL(clSetKernelArg(k, 1, sizeof value, &value));
  EXPECT(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &huge, &huge, 0, nullptr, nullptr) < 0);
  EXPECT(clEnqueueNDRangeKernel(cl.queue, k, 4, nullptr, &global, nullptr, 0, nullptr, nullptr) ==
         CL_INVALID_WORK_DIMENSION);
  EXPECT(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &global, &local, 0, nullptr, nullptr) < 0);
  CL(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
  CL(clEnqueueTask(cl.queue, k, 0, nullptr, nullptr));
  EXPECT(cl.read_ints(m, 64)[63] == 3);
  clCreateKernel(p, "nothing", &status);
  EXPECT(status == CL_INVALID_KERNEL_NAME);
  clCreateBuffer(cl.context, CL_MEM_READ_WRITE, 0, nullptr, &status);
  EXPECT(status == CL_INVALID_BUFFER_SIZE);
  clCreateBuffer(cl.context, CL_MEM_COPY_HOST_PTR, 16, nullptr, &status);
  EXPECT(status == CL_INVALID_HOST_PTR);
  const char *bad = "__kernel void broken( {";
  cl_program q = clCreateProgramWithSource(cl.context, 1, &bad, nullptr, &status);
  CL(status);
  EXPECT(clBuildProgram(q, 1, &cl.device, "", nullptr, nullptr) == CL_BUILD_PROGRAM_FAILURE);
  char log[4096] = "";
  size_t size = 0;
  clGetProgramBuildInfo(q, cl.device, CL_PROGRAM_BUILD_LOG, sizeof log, log, &size);
  cl_build_status built = 0;
  CL(clGetProgramBuildInfo(q, cl.device, CL_PROGRAM_BUILD_STATUS, sizeof built, &built, nullptr));
  EXPECT(built == CL_BUILD_ERROR);
}

// Binaries, as a program caches them.
static void binaries(Cl &cl) {
  cl_program p = cl.build(kSource, "-D UNUSED=1");
  char options[256] = "";
  CL(clGetProgramBuildInfo(p, cl.device, CL_PROGRAM_BUILD_OPTIONS, sizeof options, options,
                           nullptr));
  EXPECT(std::string(options) == "-D UNUSED=1");
  size_t size = 0;
  CL(clGetProgramInfo(p, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr));
  EXPECT(size > 0);
  std::vector<unsigned char> binary(size);
  unsigned char *place = binary.data();
  CL(clGetProgramInfo(p, CL_PROGRAM_BINARIES, sizeof place, &place, nullptr));
  cl_int status, loaded;
  const unsigned char *bytes = binary.data();
  cl_program q =
      clCreateProgramWithBinary(cl.context, 1, &cl.device, &size, &bytes, &loaded, &status);
  CL(status);
  CL(loaded);
  CL(clBuildProgram(q, 1, &cl.device, nullptr, nullptr, nullptr));
  cl_kernel kernels[4];
  cl_uint n = 0;
  CL(clCreateKernelsInProgram(q, 4, kernels, &n));
  EXPECT(n == 2);
  cl_kernel k = cl.kernel(q, "fill");
  cl_mem m = cl.buffer(256);
  int value = 9;
  CL(clSetKernelArg(k, 0, sizeof m, &m));
  CL(clSetKernelArg(k, 1, sizeof value, &value));
  size_t global = 64;
  CL(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
  EXPECT(cl.read_ints(m, 64)[5] == 9);
}

// The output of a kernel's printf appears before clFinish returns.
static void printing(Cl &cl) {
  cl_kernel k = cl.kernel(cl.build(kSource), "hello");
  int times = 3;
  CL(clSetKernelArg(k, 0, sizeof times, &times));
  std::printf("before\n");
  std::fflush(stdout);
  size_t one = 1;
  CL(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &one, nullptr, 0, nullptr, nullptr));
  CL(clFinish(cl.queue));
  std::printf("after\n");
  std::fflush(stdout);
}

static void threads(Cl &cl) {
  cl_program p = cl.build(kSource);
  std::vector<std::thread> all;
  std::vector<int> good(4, 0);
  for (int t = 0; t < 4; t++)
    all.emplace_back([&, t] {
      cl_int status;
      cl_command_queue queue = clCreateCommandQueue(cl.context, cl.device, 0, &status);
      CL(status);
      cl_kernel k = cl.kernel(p, "fill");
      cl_mem m = cl.buffer(4096);
      size_t global = 1024;
      for (int round = 0; round < 50; round++) {
        int value = t * 1000 + round, got = -1;
        CL(clSetKernelArg(k, 0, sizeof m, &m));
        CL(clSetKernelArg(k, 1, sizeof value, &value));
        CL(clEnqueueNDRangeKernel(queue, k, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
        CL(clEnqueueReadBuffer(queue, m, CL_TRUE, 4000, 4, &got, 0, nullptr, nullptr));
        good[t] += got == value;
      }
      CL(clReleaseMemObject(m));
      CL(clReleaseKernel(k));
      CL(clReleaseCommandQueue(queue));
    });
  for (std::thread &t : all) t.join();
  for (int g : good) EXPECT(g == 50);
}

static void maps(Cl &cl) {
  cl_mem m = cl.buffer(1 << 20);
  cl_int status;
  int *p = (int *)clEnqueueMapBuffer(cl.queue, m, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 4096,
                                     4096, 0, nullptr, nullptr, &status);
  CL(status);
  for (int i = 0; i < 1024; i++) p[i] = i;
  cl_uint count = 0;
  CL(clGetMemObjectInfo(m, CL_MEM_MAP_COUNT, sizeof count, &count, nullptr));
  EXPECT(count == 1);
  CL(clEnqueueUnmapMemObject(cl.queue, m, p, 0, nullptr, nullptr));
  EXPECT(cl.read_ints(m, 1024, 1024)[1000] == 1000);
  cl_event e;
  int *q = (int *)clEnqueueMapBuffer(cl.queue, m, CL_FALSE, CL_MAP_READ, 4096, 4096, 0, nullptr, &e,
                                     &status);
  CL(status);
  CL(clWaitForEvents(1, &e));
  EXPECT(q[77] == 77);
  EXPECT(clEnqueueUnmapMemObject(cl.queue, m, (char *)q + 1, 0, nullptr, nullptr) ==
         CL_INVALID_VALUE);
  CL(clEnqueueUnmapMemObject(cl.queue, m, q, 0, nullptr, nullptr));
}

static void destroyed(cl_mem, void *user) { *static_cast<int *>(user) += 1; }

static void lifetimes(Cl &cl) {
  static int called = 0;
  cl_mem m = cl.buffer(4096);
  CL(clSetMemObjectDestructorCallback(m, destroyed, &called));
  cl_buffer_region r = {0, 1024};
  cl_int status;
  cl_mem sub = clCreateSubBuffer(m, 0, CL_BUFFER_CREATE_TYPE_REGION, &r, &status);
  CL(status);
  CL(clReleaseMemObject(m));
  EXPECT(called == 0);  // the sub-buffer keeps it
  int value = 5;
  CL(clEnqueueFillBuffer(cl.queue, sub, &value, 4, 0, 1024, 0, nullptr, nullptr));
  EXPECT(cl.read_ints(sub, 1)[0] == 5);
  CL(clReleaseMemObject(sub));
  CL(clFinish(cl.queue));
  EXPECT(called == 1);
  CL(clEnqueueMarkerWithWaitList(cl.queue, 0, nullptr, nullptr));
  CL(clEnqueueBarrierWithWaitList(cl.queue, 0, nullptr, nullptr));
  CL(clFlush(cl.queue));
  CL(clFinish(cl.queue));
}

// Argument information exists only if the program was built with it.
static void argument_info(Cl &cl) {
  char name[16] = "";
  cl_kernel without = cl.kernel(cl.build(kSource), "fill");
  EXPECT(clGetKernelArgInfo(without, 1, CL_KERNEL_ARG_NAME, sizeof name, name, nullptr) ==
         CL_KERNEL_ARG_INFO_NOT_AVAILABLE);
  cl_kernel with = cl.kernel(cl.build(kSource, "-cl-kernel-arg-info"), "fill");
  CL(clGetKernelArgInfo(with, 1, CL_KERNEL_ARG_NAME, sizeof name, name, nullptr));
  EXPECT(std::string(name) == "value");
}

static void repeated_property(Cl &cl) {
  auto platform = (cl_context_properties)cl.platform;
  cl_context_properties twice[] = {CL_CONTEXT_PLATFORM, platform, CL_CONTEXT_PLATFORM, platform, 0};
  cl_int status = CL_SUCCESS;
  EXPECT(!clCreateContext(twice, 1, &cl.device, nullptr, nullptr, &status));
  EXPECT(status == CL_INVALID_PROPERTY);
}

// It includes arguments in local memory, whenever they are set.
static void local_memory(const Cl &cl) {
  cl_kernel k = cl.kernel(cl.build("__kernel void f(__global int *d, __local int *l) {"
                                   "  l[get_local_id(0)] = 1;"
                                   "  barrier(CLK_LOCAL_MEM_FENCE);"
                                   "  d[0] = l[0];"
                                   "}"),
                          "f");
  for (size_t bytes : {256, 32768, 512}) {
    cl_ulong size = 0;
    CL(clSetKernelArg(k, 1, bytes, nullptr));
    CL(clGetKernelWorkGroupInfo(k, cl.device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof size, &size,
                                nullptr));
    std::printf("local memory %llu\n", static_cast<unsigned long long>(size));
  }
}

int main() {
  Cl cl;
  argument_info(cl);
  repeated_property(cl);
  local_memory(cl);
  transfers(cl);
  rectangles(cl);
  errors_at_once(cl);
  binaries(cl);
  printing(cl);
  threads(cl);
  maps(cl);
  lifetimes(cl);
  return finish();
}
