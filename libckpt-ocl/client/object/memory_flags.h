// SPDX-License-Identifier: Apache-2.0
//
// The flags of buffers and images.
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

inline constexpr cl_mem_flags kKernelAccess =
    CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
inline constexpr cl_mem_flags kHostAccess =
    CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;
inline constexpr cl_mem_flags kHostPointer =
    CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;

// Flags that forbid the host to read or to write.
inline constexpr cl_mem_flags kNoRead = CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS;
inline constexpr cl_mem_flags kNoWrite = CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;

// The specification's rules for the flags of a new memory object; `host_ptr`: a pointer was given.
cl_int check_flags(cl_mem_flags flags, bool host_ptr);
// The flags of a sub-object: what it does not specify itself, it inherits from its parent.
cl_mem_flags inherited(cl_mem_flags flags, cl_mem_flags parent);

// Copies the list of a …WithProperties call with its final 0; no list becomes an empty copy. No
// property is supported, so every one is CL_INVALID_PROPERTY.
cl_int read_properties(const cl_mem_properties *list, std::vector<cl_mem_properties> &copy);

}  // namespace ckpt::ocl
