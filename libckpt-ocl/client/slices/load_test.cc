// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/slices/load_test.h"

#include <algorithm>
#include <list>

#include "libckpt-ocl/client/command/command.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/entry/launch.h"
#include "slicing/settings.h"

namespace ckpt::ocl {
namespace {

constexpr const char *kSource = "__kernel void ckpt_empty(void) {}";

// An empty kernel with a queue of its own. The objects keep their context.
struct EmptyKernel {
  Ref<Context> context;
  Device *device = nullptr;
  Ref<Queue> queue;
  Ref<Kernel> kernel;
};

Ref<Kernel> make_kernel(cl_context context, cl_device_id device) {
  const char *source = kSource;
  cl_program program = entry::clCreateProgramWithSource(context, 1, &source, nullptr, nullptr);
  if (program == nullptr) return {};
  cl_kernel kernel = nullptr;
  if (entry::clBuildProgram(program, 1, &device, "", nullptr, nullptr) == CL_SUCCESS)
    kernel = entry::clCreateKernel(program, "ckpt_empty", nullptr);
  Ref<Kernel> kept(object<Kernel>(kernel));
  if (kernel != nullptr) entry::clReleaseKernel(kernel);
  entry::clReleaseProgram(program);
  return kept;
}

EmptyKernel make_empty_kernel(const Queue &q) {
  EmptyKernel made{q.context, q.device, {}, {}};
  auto context = handle<cl_context>(q.context.get());
  auto device = handle<cl_device_id>(q.device);
  cl_command_queue queue =
      entry::clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, nullptr);
  made.queue = Ref<Queue>(object<Queue>(queue));
  if (queue != nullptr) entry::clReleaseCommandQueue(queue);
  made.kernel = make_kernel(context, device);
  return made;
}

// Those of contexts that the application has released are dropped.
EmptyKernel &empty_kernel_for(const Queue &q) {
  static auto *const kAll = new std::list<EmptyKernel>;
  kAll->remove_if([](const EmptyKernel &e) { return e.context->app_count.load() == 0; });
  for (EmptyKernel &e : *kAll)
    if (e.context.get() == q.context.get() && e.device == q.device) return e;
  kAll->push_back(make_empty_kernel(q));
  return kAll->back();
}

Ref<Event> launch(EmptyKernel &e) {
  Command c(*e.queue, CL_COMMAND_NDRANGE_KERNEL, nullptr);
  Ref<Event> end(&c.event());
  constexpr Sizes kOne{1, 1, 1};
  return send_launch(c, *e.kernel, {}, {}, {1, {}, kOne, kOne}) == CL_SUCCESS ? end : Ref<Event>();
}

// From the first launch to the last end, by the driver's clock.
double time_kernels(EmptyKernel &e) {
  if (!e.queue || !e.kernel) return 0;
  Ref<Event> first, last;
  for (u32 i = 0; i < slicing::settings().cooperation.kernels; ++i) {
    last = launch(e);
    if (!last) return 0;
    if (!first) first = last;
  }
  bool ran =
      wait(*first) == CL_COMPLETE && wait(*last) == CL_COMPLETE && last->ended > first->queued;
  return ran ? static_cast<double>(last->ended - first->queued) : 0;
}

}  // namespace

double time_empty_kernels(const std::vector<Ref<Queue>> &queues) {
  double longest = 0;
  for (const Ref<Queue> &q : queues)
    longest = std::max(longest, time_kernels(empty_kernel_for(*q)));
  return longest;
}

}  // namespace ckpt::ocl
