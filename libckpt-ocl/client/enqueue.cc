// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/enqueue.h"

namespace ckpt::ocl {

Command::Command(cl_command_queue queue, cl_command_type type, Waits waits) {
  auto *q = object<Queue>(queue);
  if (!q) {
    status_ = CL_INVALID_COMMAND_QUEUE;
    return;
  }
  queue_ = Ref<Queue>(q);
  if ((waits.count == 0) != (waits.list == nullptr)) {
    status_ = CL_INVALID_EVENT_WAIT_LIST;
    return;
  }
  for (cl_uint i = 0; i < waits.count; i++) {
    auto *e = object<Event>(waits.list[i]);
    if (!e) status_ = CL_INVALID_EVENT_WAIT_LIST;
    if (!e || status_ != CL_SUCCESS) return;
    if (e->context.get() != q->context.get()) status_ = CL_INVALID_CONTEXT;
    if (!e->over()) waits_.push_back(waits.list[i]);
  }
  auto *e = new Event;
  event_ = Ref<Event>(e);
  e->drop();  // the application's own reference comes with give()
  e->queue = queue_;
  e->context = q->context;
  e->type = type;
}

void Command::put_waits(Writer &w) const {
  w.put(static_cast<u32>(waits_.size()));
  for (cl_event e : waits_) w.put(object<Event>(e)->number);
}

cl_int Command::send(u16 op, ByteView payload, bool sure) {
  link().expect(event_.get());
  {
    std::lock_guard lock(queue_->mutex);
    queue_->last = event_;
  }
  link().flush_releases();
  cl_int status =
      sure ? link().send(op, event_->number, payload) : link().ask(op, event_->number, payload);
  if (status != CL_SUCCESS) {
    link().unexpect(event_.get());
    event_->status = status;
    std::lock_guard lock(queue_->mutex);
    if (queue_->last.get() == event_.get()) queue_->last = {};
  }
  link().drain();
  return status;
}

void Command::complete_here() { event_->status = CL_COMPLETE; }

cl_int Command::give(cl_event *out) {
  if (out) {
    event_->keep();  // event_'s own reference is dropped with this Command
    *out = handle<cl_event>(event_.get());
  }
  return CL_SUCCESS;
}

cl_int finish(Queue &q) {
  link().drain();
  Ref<Event> last;
  {
    std::lock_guard lock(q.mutex);
    last = q.last;
  }
  if (!last) return link().usable() ? CL_SUCCESS : CL_DEVICE_NOT_AVAILABLE;
  // In-order: when the newest is over, all are. Its error is the event's, not the queue's.
  wait(*last);
  return link().usable() ? CL_SUCCESS : CL_DEVICE_NOT_AVAILABLE;
}

cl_int wait(Event &e) {
  if (!e.over()) link().wait_until([&] { return e.over(); }, true);
  return e.status.load(std::memory_order_acquire);
}

cl_int check_mem(const Queue &q, const void *mem) {
  auto *m = object<Mem>(mem);
  if (!m) return CL_INVALID_MEM_OBJECT;
  return m->context.get() == q.context.get() ? CL_SUCCESS : CL_INVALID_CONTEXT;
}

}  // namespace ckpt::ocl
