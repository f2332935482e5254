// SPDX-License-Identifier: Apache-2.0
//
// Does the driver's checkpoint keep the OpenCL memory of the same process? The OpenCL driver is
// opened without a loader, because a machine may have none: it gives its platform as a loader would
// ask for it (cl_khr_icd), and a platform begins with a table of all calls.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_icd.h>

#include <algorithm>

#include "probe.h"

struct _cl_platform_id {
  const cl_icd_dispatch *calls;
};

namespace probe {
namespace {

void check_cl(cl_int e, const char *what) {
  if (e == CL_SUCCESS) return;
  std::printf("%s: OpenCL error %d\n", what, e);
  std::exit(1);
}

cl_platform_id platform(const char *driver) {
  void *library = dlopen(driver, RTLD_NOW);
  if (library == nullptr) skip("the driver has no OpenCL here");
  auto find =
      reinterpret_cast<void *(*)(const char *)>(dlsym(library, "clGetExtensionFunctionAddress"));
  if (find == nullptr) fail("the OpenCL driver has no clGetExtensionFunctionAddress");
  auto list = reinterpret_cast<cl_int (*)(cl_uint, cl_platform_id *, cl_uint *)>(
      find("clIcdGetPlatformIDsKHR"));
  cl_platform_id id = nullptr;
  if (list == nullptr || list(1, &id, nullptr) != CL_SUCCESS || id == nullptr)
    skip("the OpenCL driver has no platform");
  return id;
}

}  // namespace

void ask_about_opencl(const char *driver) {
  cl_platform_id id = platform(driver);
  const cl_icd_dispatch &cl = *id->calls;
  cl_device_id device = nullptr;
  cl_int e = cl.clGetDeviceIDs(id, CL_DEVICE_TYPE_ALL, 1, &device, nullptr);
  if (e == CL_DEVICE_NOT_FOUND) skip("the OpenCL driver has no device");
  check_cl(e, "clGetDeviceIDs");
  cl_context context = cl.clCreateContext(nullptr, 1, &device, nullptr, nullptr, &e);
  check_cl(e, "clCreateContext");
  cl_command_queue queue = cl.clCreateCommandQueue(context, device, 0, &e);
  check_cl(e, "clCreateCommandQueue");
  std::vector<unsigned> host(kBytes / 16, 0x5eed);
  size_t bytes = host.size() * sizeof(unsigned);
  cl_mem buffer = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, nullptr, &e);
  check_cl(e, "clCreateBuffer");
  check_cl(
      cl.clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, bytes, host.data(), 0, nullptr, nullptr),
      "clEnqueueWriteBuffer");
  check_cl(cl.clFinish(queue), "clFinish");
  leave_and_return();
  std::fill(host.begin(), host.end(), 0u);
  check_cl(
      cl.clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, bytes, host.data(), 0, nullptr, nullptr),
      "clEnqueueReadBuffer");
  for (unsigned v : host)
    if (v != 0x5eed) fail("the contents of an OpenCL buffer have changed");
  std::puts("contents of an OpenCL buffer are unchanged");
}

}  // namespace probe
