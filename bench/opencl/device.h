// SPDX-License-Identifier: Apache-2.0
//
// The first OpenCL device, with a context and a queue. A benchmark program ends at the first call
// that fails.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstdio>
#include <cstdlib>

#define CL(call)                                                                 \
  do {                                                                           \
    if (cl_int status_ = (call); status_ != CL_SUCCESS) {                        \
      std::fprintf(stderr, "%s failed: OpenCL error %d\n", #call, (int)status_); \
      std::exit(1);                                                              \
    }                                                                            \
  } while (0)

namespace ckpt::bench {

struct Device {
  cl_device_id id = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;

  Device() {
    cl_platform_id platform;
    cl_int status;
    CL(clGetPlatformIDs(1, &platform, nullptr));
    CL(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, nullptr));
    context = clCreateContext(nullptr, 1, &id, nullptr, nullptr, &status);
    CL(status);
    queue = clCreateCommandQueue(context, id, 0, &status);
    CL(status);
  }

  cl_mem buffer(size_t bytes) const {
    cl_int status;
    cl_mem m = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, nullptr, &status);
    CL(status);
    return m;
  }
};

}  // namespace ckpt::bench
