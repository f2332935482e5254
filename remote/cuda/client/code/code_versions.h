// SPDX-License-Identifier: Apache-2.0
//
// Libraries with variables in the arena, in a program that sees several devices. Each device has
// variables of its own, and the code names their addresses. So such a library is loaded once for
// each device (a version), and a call with one of its kernels goes to the kernel of the version.
//
// Example: the program launches kernel K of library L in a context of device 1. The call names K1,
// which was found by K's name in L1, the version for device 1. The version for device 0 is L
// itself.
#pragma once

#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

// `versions`: by the number of the device.
void add_versions(u64 library, std::vector<u64> versions);
// The library is about to end: so are its other versions, which are returned.
std::vector<u64> forget_versions(u64 library);

// `library` or `kernel` itself where there are no versions. 0: there is no such kernel.
u64 library_on(u64 library, CUdevice device);
u64 kernel_on(u64 kernel, CUdevice device);
// On the current context's device.
u64 library_here(u64 library);

}  // namespace ckpt::remote::cuda
