// SPDX-License-Identifier: Apache-2.0
//
// The limits of a device that a program may have read and arranged itself by. They stay frozen in
// it, so a restore compares them (facts/opencl.md, "Limits that a program read once").
#pragma once

#include <array>

#include "libckpt-ocl/table.h"

namespace ckpt::ocl {

struct Limit {
  cl_device_info param;
  const char *name;
  bool strict;  // false: only what lives on the device counts, and that is checked by itself
};

inline constexpr std::array<Limit, 6> kLimits{{
    {CL_DEVICE_MAX_WORK_GROUP_SIZE, "CL_DEVICE_MAX_WORK_GROUP_SIZE", true},
    {CL_DEVICE_LOCAL_MEM_SIZE, "CL_DEVICE_LOCAL_MEM_SIZE", true},
    {CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, "CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE", true},
    {CL_DEVICE_MAX_PARAMETER_SIZE, "CL_DEVICE_MAX_PARAMETER_SIZE", true},
    {CL_DEVICE_MAX_MEM_ALLOC_SIZE, "CL_DEVICE_MAX_MEM_ALLOC_SIZE", false},
    {CL_DEVICE_GLOBAL_MEM_SIZE, "CL_DEVICE_GLOBAL_MEM_SIZE", false},
}};

inline const Limit *find_limit(cl_device_info param) {
  for (const Limit &l : kLimits)
    if (l.param == param) return &l;
  return nullptr;
}

}  // namespace ckpt::ocl
