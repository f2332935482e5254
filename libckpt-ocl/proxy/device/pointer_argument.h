// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "ring/table.h"

namespace ckpt::ocl {

// Sets a kernel's argument to the beginning of `memory` of this process, for devices that work at
// host addresses (host_addresses.h). Drivers with shared virtual memory of their own take any such
// pointer (PoCL 3.1). Others refuse it (rusticl of Mesa 22.3.6: CL_INVALID_OPERATION); they get a
// buffer over the memory (CL_MEM_USE_HOST_PTR), which their kernels see at the same address.
// `stand_in` is that buffer, or null; it must live until the argument is set again.
cl_int set_pointer_argument(cl_kernel kernel, cl_uint index, std::span<std::byte> memory,
                            cl_mem &stand_in);

}  // namespace ckpt::ocl
