// SPDX-License-Identifier: Apache-2.0
//
// One object of every kind, in every state that must survive a checkpoint: created before READY,
// used after it.
#include "cl_test.h"

static const char *kSource = R"(
#ifndef FACTOR
#define FACTOR 1
#endif
__kernel void scale(__global int *data, int by, __local int *scratch, __constant int *extra) {
  int i = get_global_id(0);
  scratch[get_local_id(0)] = data[i] * by * FACTOR + extra[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  data[i] = scratch[get_local_id(0)];
}
__kernel void add(__global const int *a, __global int *b, ulong number) {
  int i = get_global_id(0);
  b[i] += a[i] + (int)(number & 0xff);
}
)";

static std::vector<int> ramp(int n, int from = 0) {
  std::vector<int> v(n);
  for (int i = 0; i < n; i++) v[i] = from + i;
  return v;
}

int main() {
  constexpr int n = 4096;
  constexpr size_t bytes = n * sizeof(int);
  Cl cl(CL_QUEUE_PROFILING_ENABLE);
  cl_int status;

  // Buffers, filled in every possible way.
  std::vector<int> first = ramp(n), used = ramp(n, 1000);
  cl_mem plain = cl.buffer(bytes);
  CL(clEnqueueWriteBuffer(cl.queue, plain, CL_TRUE, 0, bytes, first.data(), 0, nullptr, nullptr));
  cl_mem copied = cl.buffer(bytes, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, first.data());
  cl_mem host = cl.buffer(bytes, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, used.data());
  cl_mem alloc = cl.buffer(bytes, CL_MEM_ALLOC_HOST_PTR);
  int pattern = 7;
  CL(clEnqueueFillBuffer(cl.queue, alloc, &pattern, sizeof pattern, 0, bytes, 0, nullptr, nullptr));
  cl_buffer_region region = {1024 * sizeof(int), 1024 * sizeof(int)};
  cl_mem sub =
      clCreateSubBuffer(plain, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
  CL(status);
  cl_mem big = cl.buffer(24 << 20);  // many chunks, and more than one piece of a transfer
  std::vector<int> many = ramp(6 << 20, 5);
  CL(clEnqueueWriteBuffer(cl.queue, big, CL_FALSE, 0, many.size() * 4, many.data(), 0, nullptr,
                          nullptr));
  CL(clFinish(cl.queue));

  // A program with options, kernels with their arguments set.
  cl_program program = cl.build(kSource, "-D FACTOR=3");
  cl_kernel scale = cl.kernel(program, "scale"), add = cl.kernel(program, "add");
  int by = 2;
  std::vector<int> extra = {5};
  cl_mem constant = cl.buffer(sizeof(int), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, extra.data());
  CL(clSetKernelArg(scale, 0, sizeof plain, &plain));
  CL(clSetKernelArg(scale, 1, sizeof by, &by));
  CL(clSetKernelArg(scale, 2, 64 * sizeof(int), nullptr));
  CL(clSetKernelArg(scale, 3, sizeof constant, &constant));
  cl_ulong handle_like = (cl_ulong)(size_t)plain;  // a number that looks like a handle
  CL(clSetKernelArg(add, 0, sizeof copied, &copied));
  CL(clSetKernelArg(add, 1, sizeof host, &host));
  CL(clSetKernelArg(add, 2, sizeof handle_like, &handle_like));
  size_t global = n, local = 64;
  cl_event launched;
  CL(clEnqueueNDRangeKernel(cl.queue, scale, 1, nullptr, &global, &local, 0, nullptr, &launched));

  // A program that the application has released and its kernels keep alive.
  cl_mem kept = cl.buffer(bytes, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, first.data());
  cl_kernel second = cl.kernel(program, "scale");
  CL(clSetKernelArg(second, 0, sizeof kept, &kept));
  CL(clSetKernelArg(second, 1, sizeof by, &by));
  CL(clSetKernelArg(second, 2, 64 * sizeof(int), nullptr));
  CL(clSetKernelArg(second, 3, sizeof constant, &constant));
  CL(clReleaseProgram(program));

  // A map that stays open during the checkpoint.
  int *mapped =
      (int *)clEnqueueMapBuffer(cl.queue, alloc, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                100 * sizeof(int), 50 * sizeof(int), 0, nullptr, nullptr, &status);
  CL(status);
  EXPECT(mapped[0] == 7 && mapped[49] == 7);
  mapped[0] = 70;
  CL(clWaitForEvents(1, &launched));
  cl_ulong ended_before = 0, started_before = 0, queued_before = 0;
  CL(clGetEventProfilingInfo(launched, CL_PROFILING_COMMAND_QUEUED, 8, &queued_before, nullptr));
  CL(clGetEventProfilingInfo(launched, CL_PROFILING_COMMAND_END, 8, &ended_before, nullptr));
  CL(clGetEventProfilingInfo(launched, CL_PROFILING_COMMAND_START, 8, &started_before, nullptr));
  EXPECT(started_before > 0 && ended_before >= started_before);

  pause_here();

  // The event's state, and time stamps that never run backwards.
  cl_int state = -1;
  CL(clGetEventInfo(launched, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr));
  EXPECT(state == CL_COMPLETE);
  cl_ulong again = 0;
  CL(clGetEventProfilingInfo(launched, CL_PROFILING_COMMAND_END, 8, &again, nullptr));
  EXPECT(again == ended_before);

  // The map is unchanged, and reaches the device when it is unmapped.
  mapped[49] = 71;
  CL(clEnqueueUnmapMemObject(cl.queue, alloc, mapped, 0, nullptr, nullptr));
  std::vector<int> v = cl.read_ints(alloc, n);
  EXPECT(v[99] == 7 && v[100] == 70 && v[149] == 71 && v[150] == 7);

  // Contents of the rest: plain was scaled by 2 * 3 plus 5.
  v = cl.read_ints(plain, n);
  for (int i = 0; i < n; i += 37) EXPECT(v[i] == i * 6 + 5);
  v = cl.read_ints(sub, 1024);
  EXPECT(v[0] == 1024 * 6 + 5);
  v = cl.read_ints(host, n);
  EXPECT(v[10] == 1010);
  v = cl.read_ints(big, 6 << 20);
  EXPECT(v == many);

  // Arguments set before the checkpoint are still set; a sub-buffer is still part of its parent.
  cl_event later;
  CL(clEnqueueNDRangeKernel(cl.queue, scale, 1, nullptr, &global, &local, 1, &launched, &later));
  v = cl.read_ints(sub, 4);
  EXPECT(v[1] == (1025 * 6 + 5) * 6 + 5);
  CL(clGetEventProfilingInfo(later, CL_PROFILING_COMMAND_QUEUED, 8, &again, nullptr));
  EXPECT(again >= queued_before);  // START is unreliable on rusticl, also natively
  CL(clEnqueueNDRangeKernel(cl.queue, second, 1, nullptr, &global, &local, 0, nullptr, nullptr));
  v = cl.read_ints(kept, n);
  EXPECT(v[3] == 3 * 6 + 5);
  CL(clEnqueueNDRangeKernel(cl.queue, add, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
  v = cl.read_ints(host, n);
  EXPECT(v[10] == 1010 + 10 + (int)(handle_like & 0xff));

  // USE_HOST_PTR: a map shows the device's contents at the host's own address.
  void *at = clEnqueueMapBuffer(cl.queue, host, CL_TRUE, CL_MAP_READ, 0, bytes, 0, nullptr, nullptr,
                                &status);
  CL(status);
  EXPECT(at == used.data());
  EXPECT(used[10] == v[10]);
  CL(clEnqueueUnmapMemObject(cl.queue, host, at, 0, nullptr, nullptr));

  // New objects can still be created.
  cl_kernel third = cl.kernel(cl.build(kSource), "add");
  CL(clSetKernelArg(third, 0, sizeof copied, &copied));
  CL(clSetKernelArg(third, 1, sizeof host, &host));
  cl_ulong zero = 0;
  CL(clSetKernelArg(third, 2, sizeof zero, &zero));
  CL(clEnqueueNDRangeKernel(cl.queue, third, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
  CL(clFinish(cl.queue));
  cl_uint references = 0;
  CL(clGetMemObjectInfo(plain, CL_MEM_REFERENCE_COUNT, sizeof references, &references, nullptr));
  EXPECT(references == 1);
  return finish();
}
