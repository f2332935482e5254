// SPDX-License-Identifier: Apache-2.0
//
// What every clEnqueue… function has in common: it checks the wait list, makes an event if one is
// needed, and sends the command to the proxy, or defers it (deferred.h): behind a user event, or
// because enough is under way (window.h).
//
// Which calls may go one way
//
// A round trip to the proxy costs about 10 µs, a one-way message about 2 µs (measured with
// bench/opencl/traffic, shapes `trip` and `oneway`). A program that launches a kernel of 20 µs
// would lose half of its time if every launch waited for an answer. But clEnqueue… returns an error
// code, and the specification makes many errors immediate. Some programs rely on that: an autotuner
// launches ever larger work-groups until the driver refuses one.
//
//   clEnqueueNDRangeKernel(k, local = 256)   new shape      → round trip, driver accepts
//   clEnqueueNDRangeKernel(k, local = 256)   known shape    → one way
//   clEnqueueNDRangeKernel(k, local = 2048)  new shape      → round trip, driver refuses
//
// So a command goes one way (Trip::OneWay) only if none of its immediate errors can occur any more:
//
//   checked here      transfers, fills, plain copies, markers, barriers: this library knows sizes,
//                     flags and contexts of all objects, so it finds the errors itself.
//   accepted before   launches and kernel arguments: the driver has accepted one of the same shape.
//                     The shape is everything that its decision can depend on (Shape in launch.cc,
//                     the size and kind of an argument in kernel.cc). A new proxy starts with no
//                     accepted shapes, since it may be another driver.
//
// Everything else makes a round trip (Trip::Round): objects are created, programs built, image
// formats and overlapping rectangles judged by the driver. An error that still occurs behind a
// one-way command, such as exhausted device memory, becomes the status of the command's event, as
// the specification allows for errors at execution; without an event the proxy logs it.
//
// Order is kept in any case: one-way messages and round trips share one ring, and the proxy takes
// commands off it one by one. A call that needs the driver's answer, in a queue whose window is
// full, returns only when the earlier commands have been sent.
#pragma once

#include <functional>

#include "libckpt-ocl/client/object/create.h"

namespace ckpt::ocl {

struct Waits {
  cl_uint count;
  const cl_event *list;
};

// Round: wait for the driver's answer, because the call may have an immediate error.
enum class Trip : bool { Round, OneWay };

class Command {
 public:
  // Checks the queue and the wait list; status() is the API's error.
  Command(cl_command_queue queue, cl_command_type type, Waits waits);
  // One piece of a transfer, which waits for the piece `before` (may be null).
  Command(Queue &queue, cl_command_type type, Event *before);
  Command(Command &&) = default;

  cl_int status() const { return status_; }
  Queue &queue() { return *queue_; }
  cl_command_type type() const { return type_; }
  // The command's event, made at the first call. A command without one gets no completion.
  Event &event();
  // The unfinished events of the wait list.
  Waits waits() const { return {static_cast<cl_uint>(waits_.size()), waits_.data()}; }
  void put_waits(Payload &w) const;
  // Replaces the wait list by `before`.
  void wait_for(Event *before);
  void wait_for(const std::vector<Ref<Event>> &events);
  Command &with_waits_of(const Command &other);
  // Whether nothing that this command depends on is deferred.
  bool can_send_now() const;

  // Returns the event and calls `send(Command &)`: now, or when the command is no longer deferred.
  // `trip` is that of the command that it sends.
  template <class Send>
  cl_int run(cl_event *out, Trip trip, Send send) {
    return can_send_now() ? run_now(out, std::move(send)) : defer(out, std::move(send), trip);
  }
  template <class Send>
  cl_int run_now(cl_event *out, Send send);
  cl_int defer(cl_event *out, std::function<cl_int(Command &)> send, Trip trip);
  // Also returns only when the command has been sent.
  cl_int defer_until_sent(cl_event *out, std::function<cl_int(Command &)> send);

  // The command is deferred, and sent in parts (client/slices/): the function that sends it is
  // called for each part. `may_send` is asked before each instead of has_room(), with the lock of
  // DeferredCommands.
  void in_parts(std::function<bool()> may_send) { may_send_ = std::move(may_send); }
  // Called by the function that sends: another part follows. `judged`: the driver has accepted the
  // command, so that a call which needs its answer may return.
  void goes_on(bool judged) {
    goes_on_ = begun_ = true;
    judged_ = judged;
  }

  // Called before the command is sent: it writes to the object.
  void writes(Mem &m);

  // The kind of work, if the type does not say it.
  void is(const Work &work) { work_ = work; }

  cl_int send(u16 op, ByteView payload, Trip trip);
  template <auto Fn, class... A>
  cl_int send(Trip trip, A... args) {
    Payload payload;
    encode<Fn>(payload, args...);
    return send(api::spec<Fn>.op, payload.bytes(), trip);
  }

 private:
  friend class DeferredCommands;
  // A marker or barrier without a wait list waits for all earlier commands of its queue.
  bool waits_for_all() const;
  bool depends_on_deferred() const;
  Work work() const;
  void send_failed(cl_int status);
  cl_int hand_out(cl_event *out);

  cl_int status_ = CL_SUCCESS;
  cl_command_type type_ = 0;
  Work work_;
  Ref<Queue> queue_;
  Ref<Event> event_;
  std::vector<cl_event> waits_;
  std::vector<Ref<Event>> kept_events_;  // waits_, while the command is deferred
  bool no_wait_list_ = false;
  bool wait_failed_ = false;        // an event of the wait list has already failed
  std::function<bool()> may_send_;  // of a command in parts
  bool goes_on_ = false, begun_ = false, judged_ = false;
};

template <class Send>
cl_int Command::run_now(cl_event *out, Send send) {
  if (out) event();
  cl_int r = send(*this);
  return r == CL_SUCCESS ? hand_out(out) : r;
}

// Ends an event without a completion from the proxy: a user event, or a command that failed before
// it was sent.
void finish_event(Event &e, cl_int status);
// An event that finishes when everything sent to the queue so far has finished; null if nothing is
// under way.
Ref<Event> request_marker(Queue &q);
// Whether the queue may send another command (window.h).
bool has_room(Queue &q);
// Copies, and transfers of `bytes` bytes, count as equally long if they move about as many bytes.
Work work_of_bytes(cl_command_type type, u64 bytes);
cl_int finish(Queue &q);
// Waits for one command. Returns CL_COMPLETE or the command's error: CL_DEVICE_NOT_AVAILABLE if the
// proxy is gone.
cl_int wait(Event &e);
// Whether a command on this queue may use the memory object.
cl_int check_mem(const Queue &q, const void *mem);

}  // namespace ckpt::ocl
