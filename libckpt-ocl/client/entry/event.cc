// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/command/callbacks.h"
#include "libckpt-ocl/client/command/command.h"
#include "libckpt-ocl/client/command/deferred.h"
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/info.h"

namespace ckpt::ocl {
namespace {

cl_int check_events(cl_uint n, const cl_event *list) {
  if (n == 0 || !list) return CL_INVALID_VALUE;
  const Context *context = nullptr;
  for (cl_uint i = 0; i < n; i++) {
    auto *e = object<Event>(list[i]);
    if (!e) return CL_INVALID_EVENT;
    if (context && e->context.get() != context) return CL_INVALID_CONTEXT;
    context = e->context.get();
  }
  return CL_SUCCESS;
}

template <auto Fn>
cl_int enqueue_synchronization(cl_command_queue queue, cl_command_type type, Waits waits,
                               cl_event *out) {
  Command c(queue, type, waits);
  if (c.status() != CL_SUCCESS) return c.status();
  return c.run(out, Trip::OneWay, [queue](Command &it) {
    return it.send<Fn>(Trip::OneWay, queue, it.waits().count, it.waits().list, nullptr);
  });
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_int clWaitForEvents(cl_uint n, const cl_event *list) {
  ApiCall call;
  if (cl_int r = check_events(n, list); r != CL_SUCCESS) return r;
  cl_int result = CL_SUCCESS;
  for (cl_uint i = 0; i < n; i++)
    if (wait(*object<Event>(list[i])) < 0) result = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  return result;
}

cl_int clGetEventInfo(cl_event event, cl_event_info param, size_t room, void *value,
                      size_t *needed) {
  ApiCall call;
  Answer out{room, value, needed};
  auto *e = object<Event>(event);
  if (!e) return CL_INVALID_EVENT;
  switch (param) {
    case CL_EVENT_COMMAND_QUEUE: return out.scalar(handle<cl_command_queue>(e->queue.get()));
    case CL_EVENT_CONTEXT: return out.scalar(handle<cl_context>(e->context.get()));
    case CL_EVENT_COMMAND_TYPE: return out.scalar(e->type);
    case CL_EVENT_REFERENCE_COUNT: return out.scalar(cl_uint{e->app_count.load()});
    case CL_EVENT_COMMAND_EXECUTION_STATUS:
      link().drain();
      return out.scalar(cl_int{e->status.load()});
    default: return CL_INVALID_VALUE;
  }
}

cl_int clGetEventProfilingInfo(cl_event event, cl_profiling_info param, size_t room, void *value,
                               size_t *needed) {
  ApiCall call;
  Answer out{room, value, needed};
  auto *e = object<Event>(event);
  if (!e) return CL_INVALID_EVENT;
  link().drain();
  if (!e->queue || !(e->queue->properties & CL_QUEUE_PROFILING_ENABLE) ||
      e->status.load() != CL_COMPLETE)
    return CL_PROFILING_INFO_NOT_AVAILABLE;
  switch (param) {
    case CL_PROFILING_COMMAND_QUEUED: return out.scalar(cl_ulong{e->queued});
    case CL_PROFILING_COMMAND_SUBMIT: return out.scalar(cl_ulong{e->submitted});
    case CL_PROFILING_COMMAND_START: return out.scalar(cl_ulong{e->started});
    case CL_PROFILING_COMMAND_END: return out.scalar(cl_ulong{e->ended});
    default: return CL_INVALID_VALUE;
  }
}

cl_event clCreateUserEvent(cl_context context, cl_int *errcode) {
  ApiCall call;
  auto *c = object<Context>(context);
  if (!c) return failed<cl_event>(CL_INVALID_CONTEXT, errcode);
  auto *e = new Event;
  e->context = Ref<Context>(c);
  e->type = CL_COMMAND_USER;
  e->deferred = true;
  deferred_commands().user_event_created();
  return created<cl_event>(e, CL_SUCCESS, errcode);
}

cl_int clSetUserEventStatus(cl_event event, cl_int status) {
  ApiCall call;
  auto *e = object<Event>(event);
  if (!e || e->type != CL_COMMAND_USER) return CL_INVALID_EVENT;
  if (status > CL_COMPLETE) return CL_INVALID_VALUE;
  // `deferred` stays set until finish_event() clears it, so that no thread mistakes the event for
  // that of a command that the proxy knows.
  cl_int unset = CL_SUBMITTED;
  if (!e->status.compare_exchange_strong(unset, status)) return CL_INVALID_OPERATION;
  finish_event(*e, status);
  deferred_commands().release();
  deferred_commands().user_event_gone();
  return CL_SUCCESS;
}

cl_int clSetEventCallback(cl_event event, cl_int type,
                          void(CL_CALLBACK *fn)(cl_event, cl_int, void *), void *user) {
  ApiCall call;
  auto *e = object<Event>(event);
  if (!e) return CL_INVALID_EVENT;
  if (!fn || (type != CL_COMPLETE && type != CL_RUNNING && type != CL_SUBMITTED))
    return CL_INVALID_VALUE;
  return add_callback(*e, {type, fn, user}) ? CL_SUCCESS : CL_OUT_OF_RESOURCES;
}

cl_int clRetainEvent(cl_event event) { return retain<Event>(event, CL_INVALID_EVENT); }

cl_int clReleaseEvent(cl_event event) { return release_call<Event>(event, CL_INVALID_EVENT); }

cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint n, const cl_event *list,
                                   cl_event *out) {
  ApiCall call;
  return enqueue_synchronization<&::clEnqueueMarkerWithWaitList>(queue, CL_COMMAND_MARKER,
                                                                 {n, list}, out);
}

cl_int clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint n, const cl_event *list,
                                    cl_event *out) {
  ApiCall call;
  return enqueue_synchronization<&::clEnqueueBarrierWithWaitList>(queue, CL_COMMAND_BARRIER,
                                                                  {n, list}, out);
}

cl_int clEnqueueMarker(cl_command_queue queue, cl_event *out) {
  if (!out) return CL_INVALID_VALUE;
  return entry::clEnqueueMarkerWithWaitList(queue, 0, nullptr, out);
}

cl_int clEnqueueBarrier(cl_command_queue queue) {
  return entry::clEnqueueBarrierWithWaitList(queue, 0, nullptr, nullptr);
}

cl_int clEnqueueWaitForEvents(cl_command_queue queue, cl_uint n, const cl_event *list) {
  ApiCall call;
  if (cl_int r = check_events(n, list); r != CL_SUCCESS) return r;
  return entry::clEnqueueBarrierWithWaitList(queue, n, list, nullptr);
}

}  // namespace ckpt::ocl::entry
