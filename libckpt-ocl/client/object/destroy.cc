// SPDX-License-Identifier: Apache-2.0
#include "common/base/reversed.h"
#include "libckpt-ocl/client/command/deferred.h"
#include "libckpt-ocl/client/entry/sub_device.h"
#include "libckpt-ocl/client/lifecycle/manager_requests.h"
#include "libckpt-ocl/client/link/link.h"
#include "libckpt-ocl/client/object/info.h"

namespace ckpt::ocl {
namespace {

// Removes `o` from the ledger and releases the proxy's side, if it was ever created.
void erase_from_ledger(Object *o) {
  if (o->ledger_entries.empty()) return;
  registry().remove(o);
  forget_info(o);
  bool needs_marker = o->kind == Kind::Queue && static_cast<Queue *>(o)->untracked;
  link().release_later({o->kind, o->number, needs_marker});
}

// Makes the application's callbacks, the last one first, and destroys the object.
template <class H, class T>
void destroy_with_callbacks(T *o) {
  std::vector<typename T::Callback> callbacks = std::move(o->callbacks);
  for (const typename T::Callback &c : reversed(callbacks)) c.fn(handle<H>(o), c.user);
  erase_from_ledger(o);
  delete o;
}

void destroy_kernel(Kernel *k) {
  if (k->program) k->program->kernels.fetch_sub(1);
  erase_from_ledger(k);
  delete k;
}

void destroy_event(Event *e) {
  if (e->type == CL_COMMAND_USER && e->deferred.load()) deferred_commands().user_event_gone();
  delete e;
}

template <class T>
void destroy_plain(Object *o) {
  erase_from_ledger(o);
  delete static_cast<T *>(o);
}

}  // namespace

void destroy(Object *o) {
  switch (o->kind) {
    case Kind::Context: return destroy_with_callbacks<cl_context>(static_cast<Context *>(o));
    case Kind::Queue: return destroy_plain<Queue>(o);
    case Kind::Mem:
      release_managed(*static_cast<Mem *>(o));
      static_cast<Mem *>(o)->shared.reset();  // its callbacks may free the program's memory
      return destroy_with_callbacks<cl_mem>(static_cast<Mem *>(o));
    case Kind::Program: return destroy_plain<Program>(o);
    case Kind::Kernel: return destroy_kernel(static_cast<Kernel *>(o));
    case Kind::Sampler: return destroy_plain<Sampler>(o);
    case Kind::Partition: return destroy_plain<Partition>(o);
    case Kind::Event: return destroy_event(static_cast<Event *>(o));
    case Kind::Device: return destroy_sub_device(static_cast<Device *>(o));
    case Kind::Platform:
    case Kind::None: return;  // never destroyed
  }
}

}  // namespace ckpt::ocl
