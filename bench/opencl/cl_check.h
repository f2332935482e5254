// SPDX-License-Identifier: Apache-2.0
//
// Ends a benchmark program at the first OpenCL call that fails.
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
