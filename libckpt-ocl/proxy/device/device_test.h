// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "libckpt-ocl/proxy/device/pointer_argument.h"
#include "libckpt-ocl/proxy/device/real_devices.h"
#include "libckpt-ocl/proxy/serve/objects.h"
#include "libckpt-ocl/proxy/serve/sources.h"

namespace ckpt::ocl {

// A kernel with one argument that tests what a device does, and the driver's objects for it.
class DeviceTest {
 public:
  DeviceTest(cl_device_id device, const char *source, const char *name) {
    context_ = ::clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
    cl_int e = CL_DEVICE_NOT_AVAILABLE;
    if (context_) queue_ = ::clCreateCommandQueue(context_, device, 0, &e);
    if (e == CL_SUCCESS) program_ = built_from_source(context_, {device}, source, "", {}, e);
    if (e == CL_SUCCESS) kernel_ = ::clCreateKernel(program_, name, &e);
  }
  DeviceTest(const DeviceTest &) = delete;
  ~DeviceTest() {
    release_handle(Kind::Mem, mem_);
    release_handle(Kind::Kernel, kernel_);
    release_handle(Kind::Program, program_);
    release_handle(Kind::Queue, queue_);
    release_handle(Kind::Context, context_);
  }

  bool made() const { return kernel_ != nullptr; }
  // The argument; once.
  cl_int set_buffer(std::span<std::byte> host) {
    cl_int e = CL_OUT_OF_RESOURCES;
    mem_ = ::clCreateBuffer(context_, CL_MEM_USE_HOST_PTR, host.size(), host.data(), &e);
    return mem_ ? ::clSetKernelArg(kernel_, 0, sizeof mem_, &mem_) : e;
  }
  cl_int set_pointer(std::span<std::byte> host) {
    return set_pointer_argument(kernel_, 0, host, mem_);
  }
  // Runs the kernel to its end.
  bool run(size_t items) {
    return ::clEnqueueNDRangeKernel(queue_, kernel_, 1, nullptr, &items, nullptr, 0, nullptr,
                                    nullptr) == CL_SUCCESS &&
           ::clFinish(queue_) == CL_SUCCESS;
  }

 private:
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_program program_ = nullptr;
  cl_kernel kernel_ = nullptr;
  cl_mem mem_ = nullptr;
};

}  // namespace ckpt::ocl
