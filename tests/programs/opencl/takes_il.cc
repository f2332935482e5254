// SPDX-License-Identifier: Apache-2.0
//
// No implementation of the test bed takes SPIR-V. Preloaded, this makes the drivers in the proxy do
// so, as far as our side can see: a module is the header of one and OpenCL C behind it, and a
// specialization constant N is the macro SPEC_N. Any other process sees its loader as it is.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <errno.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>

namespace {

constexpr char kVersions[] = "SPIR-V_1.0 SPIR-V_1.2";
constexpr size_t kHeaderBytes = 5 * sizeof(cl_uint);

template <class F>
F next(const char *name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

bool in_proxy() { return std::strcmp(program_invocation_short_name, "ckpt-ocl-proxy") == 0; }

std::map<cl_program, std::map<cl_uint, cl_int>> &constants() {
  static std::map<cl_program, std::map<cl_uint, cl_int>> all;
  return all;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] cl_int clGetDeviceInfo(cl_device_id device, cl_device_info param,
                                                      size_t room, void *value, size_t *needed) {
  if (!in_proxy() || param != CL_DEVICE_IL_VERSION)
    return next<decltype(&clGetDeviceInfo)>("clGetDeviceInfo")(device, param, room, value, needed);
  if (needed) *needed = sizeof kVersions;
  if (value && room < sizeof kVersions) return CL_INVALID_VALUE;
  if (value) std::memcpy(value, kVersions, sizeof kVersions);
  return CL_SUCCESS;
}

[[gnu::visibility("default")]] cl_program clCreateProgramWithIL(cl_context context, const void *il,
                                                                size_t length, cl_int *errcode) {
  if (!in_proxy())
    return next<decltype(&clCreateProgramWithIL)>("clCreateProgramWithIL")(context, il, length,
                                                                           errcode);
  const char *text = static_cast<const char *>(il) + kHeaderBytes;
  size_t bytes = length - kHeaderBytes;
  return clCreateProgramWithSource(context, 1, &text, &bytes, errcode);
}

[[gnu::visibility("default")]] cl_int clSetProgramSpecializationConstant(cl_program program,
                                                                         cl_uint id, size_t size,
                                                                         const void *value) {
  if (!in_proxy())
    return next<decltype(&clSetProgramSpecializationConstant)>(
        "clSetProgramSpecializationConstant")(program, id, size, value);
  if (size != sizeof(cl_int)) return CL_INVALID_VALUE;
  std::memcpy(&constants()[program][id], value, size);
  return CL_SUCCESS;
}

[[gnu::visibility("default")]] cl_int clBuildProgram(cl_program program, cl_uint n,
                                                     const cl_device_id *devices,
                                                     const char *options,
                                                     void(CL_CALLBACK *notify)(cl_program, void *),
                                                     void *user) {
  auto real = next<decltype(&clBuildProgram)>("clBuildProgram");
  if (!in_proxy()) return real(program, n, devices, options, notify, user);
  std::string all = options ? options : "";
  for (auto [id, value] : constants()[program])
    all += " -D SPEC_" + std::to_string(id) + "=" + std::to_string(value);
  return real(program, n, devices, all.c_str(), notify, user);
}
}
