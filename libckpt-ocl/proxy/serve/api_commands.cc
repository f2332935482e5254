// SPDX-License-Identifier: Apache-2.0
//
// The functions of opencl.api in the proxy: one template carries out every FORWARDED line.
#include <unordered_map>

#include "libckpt-ocl/proxy/device/quirks.h"
#include "libckpt-ocl/proxy/serve/images.h"
#include "libckpt-ocl/proxy/serve/server.h"

namespace ckpt::ocl {
namespace {

using Handler = void (*)(Server &, const CommandHeader &, Reader);

struct ProxySide {
  const Objects &objects;
  void *object(u8 kind, u64 number) const { return objects.object(kind, number); }
};

// A device without out-of-order queues gets an in-order queue instead. The program cannot notice:
// the client defers the commands that depend on user events (client/command/deferred.h).
void fit_to_device(api::Arguments<&::clCreateCommandQueue> &call) {
  constexpr cl_command_queue_properties kOutOfOrder = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
  cl_command_queue_properties offered = device_number(call.get<1>(), CL_DEVICE_QUEUE_PROPERTIES);
  if (!(offered & kOutOfOrder)) call.set<2>(call.get<2>() & ~kOutOfOrder);
}

// Carries out a call that creates an object.
template <auto Fn>
void make(Server &s, const CommandHeader &h, api::Arguments<Fn> &call) {
  constexpr Kind kind = static_cast<Kind>(api::spec<Fn>.result);
  if constexpr (kind == Kind::Queue) fit_to_device(call);
  auto made = call.call();
  if (call.error != CL_SUCCESS || !made)
    return s.reply(h, call.error != CL_SUCCESS ? call.error : CL_OUT_OF_RESOURCES);
  if constexpr (kind == Kind::Queue) s.queues.add(made);
  s.objects.put(kind, h.made, made);
  s.reply(h, CL_SUCCESS);
}

template <auto Fn>
cl_int enqueue(api::Arguments<Fn> &call) {
  return call.call();
}

cl_int enqueue(api::Arguments<&::clEnqueueCopyImageToBuffer> &call) {
  cl_device_id device = nullptr;
  ::clGetCommandQueueInfo(call.get<0>(), CL_QUEUE_DEVICE, sizeof device, &device, nullptr);
  if (call.get<5>() == 0 || !device || !misplaces_image_copies(device)) return call.call();
  return copy_image_in_two_steps(call.get<0>(), call.get<1>(), call.get<2>(), call.get<3>(),
                                 call.get<4>(), call.get<5>(), call.get<6>(), call.get<7>(),
                                 call.get<8>());
}

template <auto Fn>
cl_int perform(Server &, api::Arguments<Fn> &call) {
  return call.call();
}

cl_int perform(Server &s, api::Arguments<&::clBuildProgram> &call) {
  const char *options = call.get<3>();
  return s.with_headers(call.get<0>(), options ? options : "", [&](const char *moved) {
    call.set<3>(moved);
    return call.call();
  });
}

template <auto Fn>
void carry_out(Server &s, const CommandHeader &h, Reader r) {
  api::Arguments<Fn> call(r, ProxySide{s.objects});
  constexpr auto spec = api::spec<Fn>;
  constexpr bool enqueues = spec.find(api::Dir::Made) >= 0;
  if constexpr (spec.result != 0) {
    if (!call.ok()) return s.reply(h, CL_INVALID_VALUE);
    make<Fn>(s, h, call);
  } else if constexpr (enqueues) {
    cl_int status = !call.ok()                 ? CL_INVALID_VALUE
                    : s.objects.found_failed() ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
                                               : enqueue(call);
    s.enqueued(h, call.template get<0>(), static_cast<cl_event>(call.made), status);
  } else {
    s.reply(h, call.ok() ? perform(s, call) : CL_INVALID_VALUE);
  }
}

const std::unordered_map<u16, Handler> &handlers() {
  static const std::unordered_map<u16, Handler> all{
#define FORWARDED(fn, op, ...) {op, &carry_out<&::fn>},
#define LOCAL(fn, how)
#define REFUSED(fn, why)
#include "ring/opencl.api"
#undef FORWARDED
#undef LOCAL
#undef REFUSED
  };
  return all;
}

}  // namespace

bool carry_out_api(Server &s, const CommandHeader &h, Reader r) {
  auto it = handlers().find(h.op);
  if (it == handlers().end()) return false;
  it->second(s, h, r);
  return true;
}

}  // namespace ckpt::ocl
