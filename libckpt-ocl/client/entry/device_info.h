// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// The version that we show for a driver's (the answer to CL_DEVICE_VERSION or CL_PLATFORM_VERSION):
// 3.0 for 3.0, where all that we do not keep is optional; 1.2 for 2.x, where it is not.
cl_version version_to_show(const Bytes &driver);
// What the driver says, with that version, and " ckpt" behind it: programs read what stands behind
// the version as it is (pyopencl looks for "pocl 3.1" there).
std::string shown_text(cl_version shown, const Bytes &driver);

}  // namespace ckpt::ocl
