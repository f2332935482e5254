// SPDX-License-Identifier: Apache-2.0
//
// Helpers of the OpenCL test programs. A program checks itself with EXPECT and ends with the line
// "OK" and exit code 0. pause_here() is the place where a test dumps it: it prints READY and
// continues when the file named by CKPT_TEST_GO exists (at once if the variable is not set).
#pragma once

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

inline int g_failures = 0;

#define EXPECT(condition)                                                 \
  do {                                                                    \
    if (!(condition)) {                                                   \
      std::printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      std::fflush(stdout);                                                \
      g_failures++;                                                       \
    }                                                                     \
  } while (0)

// A call that must succeed.
#define CL(call)                                                                            \
  do {                                                                                      \
    cl_int status_ = (call);                                                                \
    if (status_ != CL_SUCCESS) {                                                            \
      std::printf("%s:%d: %s: OpenCL error %d\n", __FILE__, __LINE__, #call, (int)status_); \
      std::exit(1);                                                                         \
    }                                                                                       \
  } while (0)

inline void pause_here() {
  std::printf("READY\n");
  std::fflush(stdout);
  const char *go = std::getenv("CKPT_TEST_GO");
  while (go && ::access(go, F_OK) != 0) ::usleep(20'000);
  std::printf("GOING ON\n");
  std::fflush(stdout);
}

inline int finish() {
  std::printf(g_failures == 0 ? "OK\n" : "%d FAILED\n", g_failures);
  return g_failures == 0 ? 0 : 1;
}

struct Cl {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;

  explicit Cl(cl_command_queue_properties properties = 0) {
    cl_int status;
    CL(clGetPlatformIDs(1, &platform, nullptr));
    CL(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr));
    context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
    CL(status);
    queue = clCreateCommandQueue(context, device, properties, &status);
    CL(status);
  }

  cl_program build(const std::string &source, const char *options = "") const {
    cl_int status;
    const char *text = source.c_str();
    cl_program p = clCreateProgramWithSource(context, 1, &text, nullptr, &status);
    CL(status);
    CL(clBuildProgram(p, 1, &device, options, nullptr, nullptr));
    return p;
  }
  cl_kernel kernel(cl_program p, const char *name) const {
    cl_int status;
    cl_kernel k = clCreateKernel(p, name, &status);
    CL(status);
    return k;
  }
  cl_mem buffer(size_t bytes, cl_mem_flags flags = CL_MEM_READ_WRITE, void *host = nullptr) const {
    cl_int status;
    cl_mem m = clCreateBuffer(context, flags, bytes, host, &status);
    CL(status);
    return m;
  }
  std::vector<int> read_ints(cl_mem m, size_t count, size_t offset = 0) const {
    std::vector<int> v(count);
    CL(clEnqueueReadBuffer(queue, m, CL_TRUE, offset * sizeof(int), count * sizeof(int), v.data(),
                           0, nullptr, nullptr));
    return v;
  }
};
