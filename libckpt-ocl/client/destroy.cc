// SPDX-License-Identifier: Apache-2.0
#include "common/base/reversed.h"
#include "libckpt-ocl/client/held.h"
#include "libckpt-ocl/client/info.h"
#include "libckpt-ocl/client/link.h"
#include "libckpt-ocl/client/subdevice.h"
#include "libckpt-ocl/client/tenancy.h"

namespace ckpt::ocl {
namespace {

// What the far side holds of `o` goes with it; an object that was refused has nothing there.
void leave_ledger(Object *o) {
  if (o->life.empty()) return;
  registry().remove(o);
  forget_info(o);
  bool settle = o->kind == Kind::Queue && static_cast<Queue *>(o)->unheard;
  link().release_later({o->kind, o->number, settle});
}

// The application's callbacks, the last one first, and then the object.
template <class H, class T>
void destroy_called(T *o) {
  std::vector<typename T::Callback> callbacks = std::move(o->callbacks);
  for (const typename T::Callback &c : reversed(callbacks)) c.fn(handle<H>(o), c.user);
  leave_ledger(o);
  delete o;
}

void destroy_kernel(Kernel *k) {
  if (k->program) k->program->kernels.fetch_sub(1);
  leave_ledger(k);
  delete k;
}

void destroy_event(Event *e) {
  if (e->type == CL_COMMAND_USER && e->held.load()) held().user_event_gone();
  delete e;
}

template <class T>
void destroy_plain(Object *o) {
  leave_ledger(o);
  delete static_cast<T *>(o);
}

}  // namespace

void destroy(Object *o) {
  switch (o->kind) {
    case Kind::Context: return destroy_called<cl_context>(static_cast<Context *>(o));
    case Kind::Queue: return destroy_plain<Queue>(o);
    case Kind::Mem:
      released_as_tenant(*static_cast<Mem *>(o));
      return destroy_called<cl_mem>(static_cast<Mem *>(o));
    case Kind::Program: return destroy_plain<Program>(o);
    case Kind::Kernel: return destroy_kernel(static_cast<Kernel *>(o));
    case Kind::Sampler: return destroy_plain<Sampler>(o);
    case Kind::Partition: return destroy_plain<Partition>(o);
    case Kind::Event: return destroy_event(static_cast<Event *>(o));
    case Kind::Device: return destroy_sub_device(static_cast<Device *>(o));
    case Kind::Platform:
    case Kind::None: return;  // lives for ever
  }
}

}  // namespace ckpt::ocl
