// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/command/command.h"
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/create.h"
#include "libckpt-ocl/client/object/info.h"

namespace ckpt::ocl {
namespace {

cl_command_queue_properties queue_properties_of(const Device &d) {
  cl_command_queue_properties p = 0;
  remote_info(InfoOf::Device, d, 0, CL_DEVICE_QUEUE_PROPERTIES, Answer{sizeof p, &p, nullptr});
  return p;
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties, cl_int *errcode) {
  ApiCall call;
  auto *c = object<Context>(context);
  auto *d = object<Device>(device);
  if (!c) return failed<cl_command_queue>(CL_INVALID_CONTEXT, errcode);
  if (!d || !c->has(d)) return failed<cl_command_queue>(CL_INVALID_DEVICE, errcode);
  constexpr cl_command_queue_properties kKnown =
      CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
  if (properties & ~kKnown) return failed<cl_command_queue>(CL_INVALID_VALUE, errcode);
  if (properties & ~queue_properties_of(*d))
    return failed<cl_command_queue>(CL_INVALID_QUEUE_PROPERTIES, errcode);
  auto *q = new Queue;
  q->context = Ref<Context>(c);
  q->device = d;
  q->properties = properties;
  cl_int status = create<&::clCreateCommandQueue>(q, context, device, properties, nullptr);
  return created<cl_command_queue>(q, status, errcode);
}

cl_command_queue clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                                    const cl_queue_properties *list,
                                                    cl_int *errcode) {
  cl_command_queue_properties properties = 0;
  std::vector<cl_queue_properties> copy;
  for (const cl_queue_properties *p = list; p && *p; p += 2) {
    // Device-side queues and hints of extensions, which no device here advertises.
    bool known =
        p[0] == CL_QUEUE_SIZE || p[0] == CL_QUEUE_PRIORITY_KHR || p[0] == CL_QUEUE_THROTTLE_KHR;
    if (p[0] != CL_QUEUE_PROPERTIES)
      return failed<cl_command_queue>(known ? CL_INVALID_QUEUE_PROPERTIES : CL_INVALID_VALUE,
                                      errcode);
    properties = p[1];
    copy.insert(copy.end(), {p[0], p[1]});
  }
  if (list) copy.push_back(0);
  cl_command_queue made = entry::clCreateCommandQueue(context, device, properties, errcode);
  if (made) object<Queue>(made)->property_list = std::move(copy);
  return made;
}

cl_int clRetainCommandQueue(cl_command_queue queue) {
  return retain<Queue>(queue, CL_INVALID_COMMAND_QUEUE);
}

cl_int clReleaseCommandQueue(cl_command_queue queue) {
  ApiCall call;
  cl_int r = release<Queue>(queue, CL_INVALID_COMMAND_QUEUE);
  link().drain();
  link().flush_releases();
  return r;
}

cl_int clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info param, size_t room,
                             void *value, size_t *needed) {
  ApiCall call;
  Answer out{room, value, needed};
  auto *q = object<Queue>(queue);
  if (!q) return CL_INVALID_COMMAND_QUEUE;
  switch (param) {
    case CL_QUEUE_CONTEXT: return out.scalar(handle<cl_context>(q->context.get()));
    case CL_QUEUE_DEVICE: return out.scalar(handle<cl_device_id>(q->device));
    case CL_QUEUE_REFERENCE_COUNT: return out.scalar(cl_uint{q->app_count.load()});
    case CL_QUEUE_PROPERTIES: return out.scalar(q->properties);
    case CL_QUEUE_PROPERTIES_ARRAY: return out.list(q->property_list);
    case CL_QUEUE_DEVICE_DEFAULT: return out.scalar(cl_command_queue{nullptr});
    case CL_QUEUE_SIZE: return CL_INVALID_COMMAND_QUEUE;  // only device-side queues have a size
    default: return CL_INVALID_VALUE;
  }
}

cl_int clFlush(cl_command_queue queue) {
  ApiCall call;
  if (!object<Queue>(queue)) return CL_INVALID_COMMAND_QUEUE;
  // Commands are sent when they are enqueued, or as soon as the device has got less to do.
  link().flush_releases();
  return link().usable() ? CL_SUCCESS : CL_DEVICE_NOT_AVAILABLE;
}

cl_int clFinish(cl_command_queue queue) {
  ApiCall call;
  auto *q = object<Queue>(queue);
  return q ? finish(*q) : CL_INVALID_COMMAND_QUEUE;
}

}  // namespace ckpt::ocl::entry
