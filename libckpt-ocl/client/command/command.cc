// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/command/command.h"

#include <bit>

#include "libckpt-ocl/client/command/callbacks.h"
#include "libckpt-ocl/client/command/deferred.h"
#include "libckpt-ocl/client/link/owed.h"
#include "libckpt-ocl/client/slices/turns.h"
#include "libckpt-ocl/client/transfer/edges.h"

namespace ckpt::ocl {
namespace {

// The marker becomes the queue's newest event, so that the next finish() waits for it.
// The caller holds q.order.
Ref<Event> send_marker(Queue &q, std::shared_ptr<Pulse> pulse) {
  Command c(q, CL_COMMAND_MARKER, nullptr);
  Ref<Event> marker(&c.event());
  marker->pulse = std::move(pulse);
  {
    std::lock_guard lock(q.mutex);
    q.last = marker->number;
    q.untracked = false;
  }
  link().expect(marker.get());
  Writer w;
  w.put(q.number);
  if (cl_int r = link().send(Op::Marker, marker->number, w.bytes()); r != CL_SUCCESS) {
    link().unexpect(marker.get());
    finish_event(*marker, r);
  }
  return marker;
}

// The caller holds q.order.
void send_pulse(Queue &q) {
  auto pulse = std::make_shared<Pulse>();
  send_marker(q, pulse);
  q.window.mark(std::move(pulse));
}

}  // namespace

Command::Command(cl_command_queue queue, cl_command_type type, Waits waits) : type_(type) {
  auto *q = object<Queue>(queue);
  if (!q) {
    status_ = CL_INVALID_COMMAND_QUEUE;
    return;
  }
  queue_ = Ref<Queue>(q);
  // In the child of a fork, another thread of the parent may hold any lock.
  if (!link().usable()) {
    status_ = CL_DEVICE_NOT_AVAILABLE;
    return;
  }
  no_wait_list_ = waits.count == 0;
  if (no_wait_list_ != (waits.list == nullptr)) {
    status_ = CL_INVALID_EVENT_WAIT_LIST;
    return;
  }
  for (cl_uint i = 0; i < waits.count; i++) {
    auto *e = object<Event>(waits.list[i]);
    if (!e) status_ = CL_INVALID_EVENT_WAIT_LIST;
    if (!e || status_ != CL_SUCCESS) return;
    if (e->context.get() != q->context.get()) status_ = CL_INVALID_CONTEXT;
    if (!e->finished())
      waits_.push_back(waits.list[i]);
    else if (e->status.load() < 0)
      wait_failed_ = true;
  }
}

Command::Command(Queue &queue, cl_command_type type, Event *before) : type_(type), queue_(&queue) {
  wait_for(before);
}

void Command::wait_for(Event *before) {
  waits_.clear();
  if (before) waits_.push_back(handle<cl_event>(before));
}

void Command::wait_for(const std::vector<Ref<Event>> &events) {
  waits_.clear();
  for (const Ref<Event> &e : events)
    if (!e->finished()) waits_.push_back(handle<cl_event>(e.get()));
}

Command &Command::with_waits_of(const Command &other) {
  waits_ = other.waits_;
  return *this;
}

Event &Command::event() {
  if (!event_) {
    auto *e = new Event;
    event_ = Ref<Event>(e);
    e->drop();  // the application's own reference comes with hand_out()
    e->queue = queue_;
    e->context = queue_->context;
    e->type = type_;
  }
  return *event_;
}

void Command::writes(Mem &m) {
  will_be_written(m);
  Mem *root = m.root();
  if (root->shared && root->host_ptr) event().writes.emplace_back(Ref<Mem>(root));
}

void Command::put_waits(Payload &w) const {
  w.put(static_cast<u32>(waits_.size()));
  for (cl_event e : waits_) w.put(object<Event>(e)->number);
}

bool Command::waits_for_all() const {
  return no_wait_list_ && (type_ == CL_COMMAND_MARKER || type_ == CL_COMMAND_BARRIER);
}

bool Command::can_send_now() const {
  if (wait_failed_) return false;
  return !depends_on_deferred() && !queue_->held_back.load() && has_room(*queue_);
}

bool Command::depends_on_deferred() const {
  if (deferred_commands().none()) return false;
  bool behind_queue =
      queue_->deferred.load() > 0 &&
      (queue_->in_order() || queue_->deferred_barriers.load() > 0 || waits_for_all());
  auto is_deferred = [](cl_event e) { return object<Event>(e)->deferred.load(); };
  return behind_queue || std::any_of(waits_.begin(), waits_.end(), is_deferred);
}

Work work_of_bytes(cl_command_type type, u64 bytes) {
  return {u64{type} << 8 | static_cast<u64>(std::bit_width(bytes)), 10'000 + bytes};
}

// Markers and barriers take no time; of other commands it is unknown, but they are no kernels.
Work Command::work() const {
  if (work_.kind != 0) return work_;
  bool empty = type_ == CL_COMMAND_MARKER || type_ == CL_COMMAND_BARRIER;
  return {u64{type_} << 8, empty ? 1'000 : kPulse / 4};
}

bool has_room(Queue &q) {
  if (!link().usable() || !deferred_commands().can_feed()) return true;
  return turn_is_on() && q.window.has_room(q.device->work_times);
}

cl_int Command::defer(cl_event *out, std::function<cl_int(Command &)> send, Trip trip) {
  // Where a user event is unset, this thread may be the one that must set it, so it does not wait.
  if (trip == Trip::Round && !wait_failed_ && !deferred_commands().user_events())
    return defer_until_sent(out, std::move(send));
  if (out) event();
  hand_out(out);
  if (wait_failed_) {
    if (event_) finish_event(*event_, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    return CL_SUCCESS;
  }
  for (cl_event e : waits_) kept_events_.emplace_back(object<Event>(e));
  deferred_commands().add(std::move(*this), std::move(send));
  return CL_SUCCESS;
}

cl_int Command::defer_until_sent(cl_event *out, std::function<cl_int(Command &)> send) {
  struct Answer {
    std::atomic<bool> known{false};
    cl_int status = CL_SUCCESS;
  };
  auto answer = std::make_shared<Answer>();
  // Goes with the command, which is dropped unsent if an event of its wait list fails.
  std::shared_ptr<void> sent_or_dropped(nullptr, [answer](void *) {
    answer->known = true;
    link().wake_waiters();
  });
  auto answering = [answer, last = std::move(sent_or_dropped),
                    send = std::move(send)](Command &it) {
    answer->status = send(it);
    if (it.goes_on_ && it.judged_) {
      answer->known = true;
      link().wake_waiters();
    }
    return answer->status;
  };
  Ref<Event> e(&event());
  if (cl_int r = defer(nullptr, std::move(answering), Trip::OneWay); r != CL_SUCCESS) return r;
  // The event is no sign: send() finishes that of a refused command before it returns the error.
  link().wait_until([&] { return answer->known.load(); }, true);
  if (!answer->known) return CL_DEVICE_NOT_AVAILABLE;
  if (answer->status != CL_SUCCESS || !out) return answer->status;
  e->keep();  // the application's reference
  *out = handle<cl_event>(e.get());
  return CL_SUCCESS;
}

cl_int Command::send(u16 op, ByteView payload, Trip trip) {
  Event *e = event_.get();
  edges_to_files();
  link().flush_releases();
  std::lock_guard in_order(queue_->order);
  {
    std::lock_guard lock(queue_->mutex);
    if (e) queue_->last = e->number;
    queue_->untracked = !e || !queue_->in_order();
  }
  if (e) link().expect(e);
  u64 made = e ? e->number : 0;
  cl_int status =
      trip == Trip::OneWay ? link().send(op, made, payload) : link().round_trip(op, made, payload);
  if (status != CL_SUCCESS)
    send_failed(status);
  else if (queue_->window.sent(work(), queue_->device->work_times))
    send_pulse(*queue_);
  if (status == CL_SUCCESS) turn_used(*queue_, work());
  link().drain();
  return status;
}

// The failed command has already replaced the queue's newest event, and says nothing about the
// commands before it: the next clFinish must ask for a marker.
void Command::send_failed(cl_int status) {
  if (!event_) return;
  link().unexpect(event_.get());
  {
    std::lock_guard lock(queue_->mutex);
    queue_->untracked = true;
  }
  finish_event(*event_, status);
}

cl_int Command::hand_out(cl_event *out) {
  if (out) {
    event().keep();  // the application's reference; event_ drops its own with this Command
    *out = handle<cl_event>(event_.get());
  }
  return CL_SUCCESS;
}

void finish_event(Event &e, cl_int status) {
  e.writes.clear();
  e.end(status);
  e.deferred.store(false);
  notify_finished(e);
  link().wake_waiters();
}

Ref<Event> request_marker(Queue &q) {
  std::lock_guard in_order(q.order);
  {
    std::lock_guard lock(q.mutex);
    if (!q.untracked) return link().pending(q.last);
  }
  return send_marker(q, nullptr);
}

cl_int finish(Queue &q) {
  if (!link().usable()) return CL_DEVICE_NOT_AVAILABLE;
  link().drain();
  if (q.deferred.load() > 0) link().wait_until([&] { return q.deferred.load() == 0; }, true);
  // When the newest event has finished, so has everything. Its error belongs to the event, not to
  // clFinish.
  if (Ref<Event> last = request_marker(q)) wait(*last);
  return link().usable() ? CL_SUCCESS : CL_DEVICE_NOT_AVAILABLE;
}

cl_int wait(Event &e) {
  link().wait_for_device([&] { return e.finished(); });
  cl_int status = e.status.load(std::memory_order_acquire);
  // Without a proxy it is not waited for what is deferred.
  return status <= CL_COMPLETE ? status : CL_DEVICE_NOT_AVAILABLE;
}

cl_int check_mem(const Queue &q, const void *mem) {
  auto *m = object<Mem>(mem);
  if (!m) return CL_INVALID_MEM_OBJECT;
  return m->context.get() == q.context.get() ? CL_SUCCESS : CL_INVALID_CONTEXT;
}

}  // namespace ckpt::ocl
