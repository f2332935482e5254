// SPDX-License-Identifier: Apache-2.0
//
// Known deviations of drivers from the specification, by platform name, with the version in which
// they were seen.
#pragma once

#include "libckpt-ocl/proxy/device/real_devices.h"

namespace ckpt::ocl {

inline std::string platform_of(cl_device_id d) {
  cl_platform_id p = nullptr;
  ::clGetDeviceInfo(d, CL_DEVICE_PLATFORM, sizeof p, &p, nullptr);
  return p ? platform_text(p, CL_PLATFORM_NAME) : std::string();
}

// oclgrind 21.10 does not lock its queues, so only one thread may call it.
inline bool single_threaded(cl_device_id d) { return platform_of(d) == "Oclgrind"; }

// rusticl (Mesa 22.3.6, llvmpipe) answers CL_KERNEL_WORK_GROUP_SIZE with 32 for some kernels and
// runs them in groups of up to CL_DEVICE_MAX_WORK_GROUP_SIZE.
inline bool understates_work_groups(cl_device_id d) { return platform_of(d) == "rusticl"; }

// rusticl (Mesa 25.0.7, llvmpipe) takes the offset of clEnqueueCopyImageToBuffer in elements of the
// image instead of bytes. It writes to a wrong place, possibly past the end of the buffer.
inline bool misplaces_image_copies(cl_device_id d) { return platform_of(d) == "rusticl"; }

// PoCL (3.1) compiles a kernel once more for small grids, and assumes there that global offsets are
// small, too. POCL_WORK_GROUP_SPECIALIZATION=0 turns that off.
inline bool assumes_small_offsets(cl_device_id d) {
  return platform_of(d) == "Portable Computing Language";
}

}  // namespace ckpt::ocl
