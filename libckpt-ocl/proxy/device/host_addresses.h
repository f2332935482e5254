// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ring/table.h"

namespace ckpt::ocl {

// Whether kernels on this device see a pointer as this process does: also one that they read from
// memory, to memory that no argument names. Only asked of devices that work on host pages
// (shared_pages.h). The first question runs a kernel.
bool works_at_host_addresses(cl_device_id device);

// What libckpt-ocl offers there, by whatever means of the driver: coarse-grained buffers, and
// fine-grained ones, because either side sees at once what the other one writes. Atomics of host
// and device on the same word are not offered: the test does not show them. 0: nothing.
cl_device_svm_capabilities svm_capabilities(cl_device_id device);

}  // namespace ckpt::ocl
