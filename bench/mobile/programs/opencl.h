// SPDX-License-Identifier: Apache-2.0
//
// mobile.h for OpenCL programs, which use the first device of the first platform.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>

#include "mobile.h"

namespace mobile {

inline void check_cl(const char *file, int line, const char *what, cl_int e) {
  if (e != CL_SUCCESS) fail(file, line, what, ("error " + std::to_string(e)).c_str());
}
#define CL(call) mobile::check_cl(__FILE__, __LINE__, #call, call)

struct Device {
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  cl_kernel kernel = nullptr;
};

inline Device open_device(const char *source, const char *kernel) {
  cl_platform_id platform = nullptr;
  cl_device_id id = nullptr;
  CL(clGetPlatformIDs(1, &platform, nullptr));
  CL(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, nullptr));
  Device d;
  cl_int e = CL_SUCCESS;
  d.context = clCreateContext(nullptr, 1, &id, nullptr, nullptr, &e);
  CL(e);
  d.queue = clCreateCommandQueue(d.context, id, 0, &e);
  CL(e);
  cl_program program = clCreateProgramWithSource(d.context, 1, &source, nullptr, &e);
  CL(e);
  CL(clBuildProgram(program, 1, &id, "", nullptr, nullptr));
  d.kernel = clCreateKernel(program, kernel, &e);
  CL(e);
  return d;
}

// A buffer with a copy of `from`, or with zeros.
inline cl_mem buffer(const Device &d, size_t bytes, const void *from = nullptr) {
  cl_int e = CL_SUCCESS;
  cl_mem m = clCreateBuffer(d.context, CL_MEM_READ_WRITE, bytes, nullptr, &e);
  CL(e);
  const cl_uchar zero = 0;
  if (from != nullptr)
    CL(clEnqueueWriteBuffer(d.queue, m, CL_TRUE, 0, bytes, from, 0, nullptr, nullptr));
  else
    CL(clEnqueueFillBuffer(d.queue, m, &zero, 1, 0, bytes, 0, nullptr, nullptr));
  return m;
}

inline void read_back(const Device &d, cl_mem m, size_t bytes, void *to) {
  CL(clEnqueueReadBuffer(d.queue, m, CL_TRUE, 0, bytes, to, 0, nullptr, nullptr));
}

// Launches the kernel over `size` items from `first` on, with these buffers as arguments.
inline void launch(const Device &d, std::initializer_list<cl_mem> buffers, size_t first,
                   size_t size, const size_t *group = nullptr) {
  cl_uint i = 0;
  for (cl_mem m : buffers) CL(clSetKernelArg(d.kernel, i++, sizeof m, &m));
  CL(clEnqueueNDRangeKernel(d.queue, d.kernel, 1, &first, &size, group, 0, nullptr, nullptr));
}

inline void stepped(const Device &d, const Options &o) {
  CL(clFinish(d.queue));
  host_works(o.gap);
}

}  // namespace mobile
