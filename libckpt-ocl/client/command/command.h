// SPDX-License-Identifier: Apache-2.0
//
// What every clEnqueue… has in common: the wait list is checked, an event is made if somebody wants
// to hear of the command, and the command goes off, or is held here behind a user event (held.h).
//
// A command goes one way only where the errors that the specification makes immediate cannot occur
// any more: the caller has checked them, or the driver took the like of it before
// (facts/opencl.md, "Immediate errors").
#pragma once

#include <functional>

#include "libckpt-ocl/client/object/create.h"

namespace ckpt::ocl {

struct Waits {
  cl_uint count;
  const cl_event *list;
};

class Command {
 public:
  // Checks the queue and the wait list; status() says what is wrong.
  Command(cl_command_queue queue, cl_command_type type, Waits waits);
  // A part of a command, after `before` (which may be null).
  Command(Queue &queue, cl_command_type type, Event *before);
  Command(Command &&) = default;

  cl_int status() const { return status_; }
  Queue &queue() { return *queue_; }
  cl_command_type type() const { return type_; }
  // Its event, made when it is asked for first: only then shall we hear of the command.
  Event &event();
  // Events of the wait list that are not over yet.
  Waits waits() const { return {static_cast<cl_uint>(waits_.size()), waits_.data()}; }
  void put_waits(Writer &w) const;
  // Waits for this one only.
  void wait_for(Event *before);
  Command &with_waits_of(const Command &other);
  // Whether it is behind nothing that the proxy does not know of.
  bool can_send_now() const;

  // Runs `send(Command &)` and hands out the event: at once, or when what it is behind is set.
  template <class Send>
  cl_int run(cl_event *out, Send send) {
    return can_send_now() ? run_now(out, std::move(send)) : defer(out, std::move(send));
  }
  template <class Send>
  cl_int run_now(cl_event *out, Send send);
  cl_int defer(cl_event *out, std::function<cl_int(Command &)> send);

  // Sends it; with `sure` one way, else asking what the driver says.
  cl_int send(u16 op, ByteView payload, bool sure);
  template <auto Fn, class... A>
  cl_int send(bool sure, A... args) {
    return send(api::spec<Fn>.op, encoded<Fn>(args...), sure);
  }
  // Hands the event to the application, if it wants it.
  void note_untracked();
  cl_int hand_out(cl_event *out);

 private:
  friend class DeferredCommands;
  bool waits_for_all() const;  // of its queue

  cl_int status_ = CL_SUCCESS;
  cl_command_type type_ = 0;
  Ref<Queue> queue_;
  Ref<Event> event_;
  std::vector<cl_event> waits_;
  std::vector<Ref<Event>> kept_events_;  // waits_, while the command is held
  bool no_wait_list_ = false;            // it was given no wait list
  bool wait_failed_ = false;             // an event of the list has failed already
};

template <class Send>
cl_int Command::run_now(cl_event *out, Send send) {
  if (out) event();
  cl_int r = send(*this);
  return r == CL_SUCCESS ? hand_out(out) : r;
}

// An event is over without a word of the proxy.
void finish_event(Event &e, cl_int status);
// Asks for a completion of all that was sent to the queue.
Ref<Event> request_marker(Queue &q);
cl_int finish(Queue &q);
// Waits for one command: CL_COMPLETE, or the error it ended with.
cl_int wait(Event &e);
// A buffer that a command on this queue may use.
cl_int check_mem(const Queue &q, const void *mem);

}  // namespace ckpt::ocl
