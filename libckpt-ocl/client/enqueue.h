// SPDX-License-Identifier: Apache-2.0
//
// What every clEnqueue… has in common: the wait list is checked, an event is made and expected, the
// command goes off, and the queue remembers its newest command.
//
// A command goes one way only where the errors that the specification makes immediate cannot occur
// any more: the caller has checked them, or the driver took the like of it before
// (facts/opencl.md, "Immediate errors").
#pragma once

#include "libckpt-ocl/client/create.h"

namespace ckpt::ocl {

struct Waits {
  cl_uint count;
  const cl_event *list;
};

class Command {
 public:
  // Checks the queue and the wait list; status() says what is wrong.
  Command(cl_command_queue queue, cl_command_type type, Waits waits);

  cl_int status() const { return status_; }
  Queue &queue() { return *queue_; }
  Event &event() { return *event_; }
  // Events of the wait list that are not over yet.
  Waits waits() const { return {static_cast<cl_uint>(waits_.size()), waits_.data()}; }
  void put_waits(Writer &w) const;

  // Sends it; with `sure` one way, else asking what the driver says.
  cl_int send(u16 op, ByteView payload, bool sure);
  template <auto Fn, class... A>
  cl_int send(bool sure, A... args) {
    return send(api::spec<Fn>.op, encoded<Fn>(args...), sure);
  }
  // Instead of send(): it is over already, with nothing for the device to do.
  void complete_here();
  // Hands the event to the application, if it wants it.
  cl_int give(cl_event *out);

 private:
  cl_int status_ = CL_SUCCESS;
  Ref<Queue> queue_;
  Ref<Event> event_;
  std::vector<cl_event> waits_;
};

cl_int finish(Queue &q);
// Waits for one command: CL_COMPLETE, or the error it ended with.
cl_int wait(Event &e);
// A buffer that a command on this queue may use.
cl_int check_mem(const Queue &q, const void *mem);

}  // namespace ckpt::ocl
