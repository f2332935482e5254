// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// The version that the program sees, by the driver's answer to CL_DEVICE_VERSION or
// CL_PLATFORM_VERSION: 3.0 for 3.0, where every feature that is not preserved is optional; 1.2 for
// 2.x, where some are mandatory.
cl_version version_to_show(const Bytes &driver);
// The driver's version string with that version, and " ckpt" at its end. The text in between stays,
// because programs parse it (pyopencl looks for "pocl 3.1").
std::string shown_text(cl_version shown, const Bytes &driver);

}  // namespace ckpt::ocl
