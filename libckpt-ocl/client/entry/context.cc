// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/devices.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/lifecycle/manager_requests.h"
#include "libckpt-ocl/client/object/create.h"
#include "libckpt-ocl/client/object/info.h"

namespace ckpt::ocl {
namespace {

bool names(const std::vector<cl_context_properties> &list, cl_context_properties name) {
  for (size_t i = 0; i < list.size(); i += 2)
    if (list[i] == name) return true;
  return false;
}

// Copies the list with its final 0, and finds the platform in it.
cl_int read_properties(const cl_context_properties *p, std::vector<cl_context_properties> &copy,
                       Platform *&platform) {
  if (!p) return CL_SUCCESS;
  for (; *p; p += 2) {
    if (names(copy, p[0])) return CL_INVALID_PROPERTY;
    copy.insert(copy.end(), {p[0], p[1]});
    if (p[0] == CL_CONTEXT_PLATFORM) {
      platform = object<Platform>(reinterpret_cast<void *>(p[1]));
      if (!platform) return CL_INVALID_PLATFORM;
    } else if (p[0] != CL_CONTEXT_INTEROP_USER_SYNC) {
      return CL_INVALID_PROPERTY;
    }
  }
  copy.push_back(0);
  return CL_SUCCESS;
}

cl_int add_devices(Context &c, const Platform *platform, std::span<const cl_device_id> devices) {
  for (cl_device_id id : devices) {
    auto *d = object<Device>(id);
    if (!d || (platform && d->platform != platform)) return CL_INVALID_DEVICE;
    if (!d->present) return CL_DEVICE_NOT_AVAILABLE;
    if (c.has(d)) continue;
    c.devices.push_back(d);
    c.kept.emplace_back(Ref<Device>(d));
  }
  return CL_SUCCESS;
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_context clCreateContext(const cl_context_properties *properties, cl_uint n,
                           const cl_device_id *devices,
                           void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                           void *user, cl_int *errcode) {
  ApiCall call;
  if (!devices || n == 0 || (!notify && user)) return failed<cl_context>(CL_INVALID_VALUE, errcode);
  auto *c = new Context;
  Platform *platform = nullptr;
  cl_int status = read_properties(properties, c->properties, platform);
  if (status == CL_SUCCESS) status = add_devices(*c, platform, {devices, n});
  if (status == CL_SUCCESS)
    status = create<&::clCreateContext>(c, nullptr, n, devices, nullptr, nullptr, nullptr);
  if (status == CL_SUCCESS) report_context_created();
  return created<cl_context>(c, status, errcode);
}

cl_context clCreateContextFromType(const cl_context_properties *properties, cl_device_type type,
                                   void(CL_CALLBACK *notify)(const char *, const void *, size_t,
                                                             void *),
                                   void *user, cl_int *errcode) {
  ApiCall call;
  std::vector<cl_context_properties> copy;
  Platform *platform = default_platform();
  if (cl_int r = read_properties(properties, copy, platform); r != CL_SUCCESS)
    return failed<cl_context>(r, errcode);
  if (!platform) return failed<cl_context>(CL_INVALID_PLATFORM, errcode);
  std::vector<cl_device_id> devices(platform->devices.size());
  cl_uint count = 0;
  cl_int r = entry::clGetDeviceIDs(handle<cl_platform_id>(platform), type,
                                   static_cast<cl_uint>(devices.size()), devices.data(), &count);
  if (r != CL_SUCCESS) return failed<cl_context>(r, errcode);
  return entry::clCreateContext(properties, count, devices.data(), notify, user, errcode);
}

cl_int clRetainContext(cl_context context) { return retain<Context>(context, CL_INVALID_CONTEXT); }

cl_int clReleaseContext(cl_context context) {
  return release_call<Context>(context, CL_INVALID_CONTEXT);
}

cl_int clGetContextInfo(cl_context context, cl_context_info param, size_t room, void *value,
                        size_t *needed) {
  ApiCall call;
  Answer out{room, value, needed};
  auto *c = object<Context>(context);
  if (!c) return CL_INVALID_CONTEXT;
  std::vector<cl_device_id> devices;
  for (Device *d : c->devices) devices.push_back(handle<cl_device_id>(d));
  switch (param) {
    case CL_CONTEXT_REFERENCE_COUNT: return out.scalar(cl_uint{c->app_count.load()});
    case CL_CONTEXT_NUM_DEVICES: return out.scalar(static_cast<cl_uint>(devices.size()));
    case CL_CONTEXT_DEVICES: return out.list(devices);
    case CL_CONTEXT_PROPERTIES: return out.list(c->properties);
    default: return CL_INVALID_VALUE;
  }
}

cl_int clSetContextDestructorCallback(cl_context context, void(CL_CALLBACK *fn)(cl_context, void *),
                                      void *user) {
  ApiCall call;
  auto *c = object<Context>(context);
  if (!c) return CL_INVALID_CONTEXT;
  if (!fn) return CL_INVALID_VALUE;
  std::lock_guard lock(c->mutex);
  c->callbacks.push_back({fn, user});
  return CL_SUCCESS;
}

}  // namespace ckpt::ocl::entry
