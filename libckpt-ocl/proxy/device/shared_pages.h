// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ring/table.h"

namespace ckpt::ocl {

// Whether kernels on this device work on the pages behind a host pointer (CL_MEM_USE_HOST_PTR)
// themselves, so that either side sees at once what the other one writes. Only a device of the type
// CPU is asked, because its kernels are code of this process. The first question runs a kernel.
bool works_on_host_pages(cl_device_id device);

}  // namespace ckpt::ocl
