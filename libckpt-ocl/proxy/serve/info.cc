// SPDX-License-Identifier: Apache-2.0
//
// The clGet…Info queries that the client cannot answer by itself.
#include "libckpt-ocl/proxy/device/host_addresses.h"
#include "libckpt-ocl/proxy/serve/images.h"

namespace ckpt::ocl {
namespace {

template <class Ask>
cl_int fetch(Bytes &value, Ask ask) {
  size_t size = 0;
  if (cl_int r = ask(0, nullptr, &size); r != CL_SUCCESS) return r;
  value.resize(size);
  return size == 0 ? CL_SUCCESS : ask(size, value.data(), nullptr);
}

cl_int platform_info(cl_device_id d, u32 param, Bytes &value) {
  cl_platform_id p = nullptr;
  if (!d || ::clGetDeviceInfo(d, CL_DEVICE_PLATFORM, sizeof p, &p, nullptr) != CL_SUCCESS)
    return CL_INVALID_PLATFORM;
  return fetch(
      value, [&](size_t n, void *v, size_t *s) { return ::clGetPlatformInfo(p, param, n, v, s); });
}

Bytes svm_answer(cl_device_svm_capabilities capabilities) {
  ByteView b = view(&capabilities, sizeof capabilities);
  return {b.begin(), b.end()};
}

cl_int device_info(Server &s, cl_device_id d, u32 param, Bytes &value) {
  if (!d) return CL_INVALID_DEVICE;
  if (param == CL_DEVICE_SVM_CAPABILITIES) {
    value = svm_answer(svm_capabilities(d));
    if (s.portable) s.portable->restrict_info(param, value);
    return CL_SUCCESS;
  }
  cl_int r = fetch(value, [&](size_t n, void *v, size_t *size) {
    return ::clGetDeviceInfo(d, param, n, v, size);
  });
  if (r == CL_SUCCESS && s.portable) s.portable->restrict_info(param, value);
  return r;
}

cl_int kernel_info(cl_kernel k, u32 param, Bytes &value) {
  return fetch(value,
               [&](size_t n, void *v, size_t *s) { return ::clGetKernelInfo(k, param, n, v, s); });
}

cl_int argument_info(cl_kernel k, u64 index, u32 param, Bytes &value) {
  return fetch(value, [&](size_t n, void *v, size_t *s) {
    return ::clGetKernelArgInfo(k, static_cast<cl_uint>(index), param, n, v, s);
  });
}

cl_int work_group_info(cl_kernel k, cl_device_id d, u32 param, Bytes &value) {
  return fetch(value, [&](size_t n, void *v, size_t *s) {
    return ::clGetKernelWorkGroupInfo(k, d, param, n, v, s);
  });
}

}  // namespace

cl_int info_value(Server &s, InfoOf of, u64 number, u64 second, u32 param, Bytes &value) {
  auto device = [&](u64 n) { return s.objects.get<cl_device_id>(Kind::Device, n); };
  auto kernel = s.objects.get<cl_kernel>(Kind::Kernel, number);
  bool of_kernel = of == InfoOf::Kernel || of == InfoOf::KernelArg || of == InfoOf::KernelWorkGroup;
  if (of_kernel && !kernel) return CL_INVALID_KERNEL;
  switch (of) {
    case InfoOf::Platform: return platform_info(device(second), param, value);
    case InfoOf::Device: return device_info(s, device(number), param, value);
    case InfoOf::Program:
    case InfoOf::ProgramBuild: return program_info(s, number, second, param, value);
    case InfoOf::Kernel: return kernel_info(kernel, param, value);
    case InfoOf::KernelArg: return argument_info(kernel, second, param, value);
    case InfoOf::KernelWorkGroup: return work_group_info(kernel, device(second), param, value);
    case InfoOf::ImageFormats: {
      auto context = s.objects.get<cl_context>(Kind::Context, number);
      cl_int r = context ? image_formats(context, second, param, value) : CL_INVALID_CONTEXT;
      if (r == CL_SUCCESS && s.portable) s.portable->restrict_formats(second, param, value);
      return r;
    }
  }
  return CL_INVALID_VALUE;
}

void kernel_sub_group(Server &s, const CommandHeader &h, Reader r) {
  auto kernel = s.objects.get<cl_kernel>(Kind::Kernel, r.get<u64>());
  auto device = s.objects.get<cl_device_id>(Kind::Device, r.get<u64>());
  u32 param = r.get<u32>();
  ByteView given = r.blob();
  size_t input[3] = {};
  if (!kernel || !device || !r.ok() || given.size() > sizeof input)
    return s.reply(h, CL_INVALID_VALUE);
  std::memcpy(input, given.data(), given.size());
  Bytes value(3 * sizeof(size_t));  // the longest possible answer
  size_t size = 0;
  cl_int status =
      ::clGetKernelSubGroupInfo(kernel, device, param, given.size(),
                                given.empty() ? nullptr : input, value.size(), value.data(), &size);
  value.resize(status == CL_SUCCESS ? std::min(size, value.size()) : 0);
  s.reply(h, status, value);
}

}  // namespace ckpt::ocl
