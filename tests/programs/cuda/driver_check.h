// SPDX-License-Identifier: Apache-2.0
//
// For programs of the driver API that check themselves: CHECK and OK print the line that failed and
// exit.
#pragma once

#include <cuda.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "line %d: failed: %s\n", __LINE__, #condition); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (0)
#define OK(call)                                                         \
  do {                                                                   \
    if (CUresult e_ = (call); e_ != CUDA_SUCCESS) {                      \
      const char *name_ = "?";                                           \
      cuGetErrorName(e_, &name_);                                        \
      std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, name_); \
      std::exit(1);                                                      \
    }                                                                    \
  } while (0)
