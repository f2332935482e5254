// SPDX-License-Identifier: Apache-2.0
//
// The OpenCL table (opencl.api) in C++: the kinds of objects, and one api::spec for each function
// that is forwarded to the proxy.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include "common/api/call.h"

namespace ckpt::ocl {

enum class Kind : u8 {
  None,
  Platform,
  Device,
  Context,
  Queue,
  Mem,
  Program,
  Kernel,
  Event,
  Sampler,
  Partition,  // a division into sub-devices; the application sees only those
};

}  // namespace ckpt::ocl

namespace ckpt::api {
using ocl::Kind;

#define FORWARDED(fn, op, result, ...) \
  template <>                          \
  inline constexpr auto spec<&fn> = line(#fn, op, result, __VA_ARGS__);
#define LOCAL(fn, how)
#define REFUSED(fn, why)
#include "ring/opencl.api"
#undef FORWARDED
#undef LOCAL
#undef REFUSED

}  // namespace ckpt::api
