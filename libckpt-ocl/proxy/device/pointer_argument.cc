// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/device/pointer_argument.h"

#include <algorithm>

#include "libckpt-ocl/proxy/device/real_devices.h"

namespace ckpt::ocl {
namespace {

cl_context context_of(cl_kernel kernel) {
  cl_context context = nullptr;
  ::clGetKernelInfo(kernel, CL_KERNEL_CONTEXT, sizeof context, &context, nullptr);
  return context;
}

// Drivers before OpenCL 2.0 may have no function behind clSetKernelArgSVMPointer at all.
bool has_pointers(cl_context context) {
  std::vector<cl_device_id> devices = devices_in(context);
  return std::ranges::all_of(
      devices, [](cl_device_id d) { return device_number(d, CL_DEVICE_SVM_CAPABILITIES) != 0; });
}

}  // namespace

cl_int set_pointer_argument(cl_kernel kernel, cl_uint index, std::span<std::byte> memory,
                            cl_mem &stand_in) {
  stand_in = nullptr;
  cl_context context = context_of(kernel);
  if (!context) return CL_INVALID_KERNEL;
  if (has_pointers(context)) return ::clSetKernelArgSVMPointer(kernel, index, memory.data());
  cl_int status = CL_OUT_OF_RESOURCES;
  stand_in = ::clCreateBuffer(context, CL_MEM_USE_HOST_PTR, memory.size(), memory.data(), &status);
  return stand_in ? ::clSetKernelArg(kernel, index, sizeof stand_in, &stand_in) : status;
}

}  // namespace ckpt::ocl
