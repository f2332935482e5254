// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/object/memory_flags.h"

namespace ckpt::ocl {
namespace {

bool at_most_one(cl_mem_flags flags) { return (flags & (flags - 1)) == 0; }

}  // namespace

cl_int check_flags(cl_mem_flags flags, bool host_ptr) {
  if (flags & ~(kKernelAccess | kHostAccess | kHostPointer)) return CL_INVALID_VALUE;
  if (!at_most_one(flags & kKernelAccess) || !at_most_one(flags & kHostAccess))
    return CL_INVALID_VALUE;
  if ((flags & CL_MEM_USE_HOST_PTR) && (flags & (CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR)))
    return CL_INVALID_VALUE;
  bool wants = flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR);
  return wants == host_ptr ? CL_SUCCESS : CL_INVALID_HOST_PTR;
}

cl_mem_flags inherited(cl_mem_flags flags, cl_mem_flags parent) {
  if (!(flags & kKernelAccess)) flags |= parent & kKernelAccess;
  if (!(flags & kHostAccess)) flags |= parent & kHostAccess;
  return flags | (parent & kHostPointer);
}

cl_int read_properties(const cl_mem_properties *list, std::vector<cl_mem_properties> &copy) {
  if (list && *list) return CL_INVALID_PROPERTY;
  if (list) copy.push_back(0);
  return CL_SUCCESS;
}

}  // namespace ckpt::ocl
