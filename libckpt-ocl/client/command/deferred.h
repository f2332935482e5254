// SPDX-License-Identifier: Apache-2.0
//
// Deferred commands
//
// A user event is an event that the application itself completes (clSetUserEventStatus). A command
// may wait for one:
//
//   e = clCreateUserEvent(context)
//   clEnqueueNDRangeKernel(q, k, …, wait list {e}, &f)
//   clEnqueueReadBuffer(q, …)                 in-order queue: behind the kernel
//   …                                         a checkpoint may come here
//   clSetUserEventStatus(e, CL_COMPLETE)      now both may run
//
// If both commands were in the driver when the checkpoint comes, the device could never drain: they
// wait for a call that the application makes only after the checkpoint. So the proxy never learns
// of user events. A command that depends on one stays in the application, as an entry of the list
// here, with everything it needs: its arguments, references to its objects, and a function that
// sends it. CRIU saves the list with the application's memory, and a restored copy sends the
// commands to its new device.
//
// A command is deferred if (Command::can_send_now)
//   - an event of its wait list is an unset user event or belongs to a deferred command, or
//   - its queue is in-order and holds a deferred command, or
//   - its queue is out-of-order and a barrier in it is deferred, or
//   - it is a marker or barrier without a wait list, and its queue holds a deferred command.
//
// Whenever a user event is set, release() sends the first entry that no longer matches one of these
// rules, and repeats until none is left. Entries stay in the order in which they were enqueued.
// Each search is linear, so releasing n commands costs O(n²) at worst; a program without user
// events pays two loads per command.
//
// Two consequences. Host memory is read when a deferred write is sent, as the specification
// demands. And an in-order queue of a new device can stand for an out-of-order one: only a command
// that waits for the application can show the difference, and such commands never reach the proxy.
//
// Source: OpenCL 3.0 specification, section 5.11 (Event Objects) and clSetUserEventStatus.
#pragma once

#include <functional>
#include <list>

#include "libckpt-ocl/client/command/command.h"

namespace ckpt::ocl {

class DeferredCommands {
 public:
  // No command can depend on a user event now.
  bool none() const { return user_events_.load() == 0 && commands_.load() == 0; }
  void user_event_created() { user_events_.fetch_add(1); }
  // A user event was set, or destroyed unset.
  void user_event_gone() { user_events_.fetch_sub(1); }
  void add(Command c, std::function<cl_int(Command &)> send);
  // Sends every command that can be sent, in the order in which they were enqueued.
  void release();

 private:
  struct Entry {
    Command command;
    std::function<cl_int(Command &)> send;
    bool waits_for_all, barrier;
  };
  std::list<Entry>::iterator next_ready();
  void run(Entry &e);

  std::atomic<u32> user_events_{0}, commands_{0};
  std::mutex mutex_;
  std::list<Entry> list_;
  // One thread releases at a time; another thread sets again_ and leaves the rest to it. Sending
  // may wait for a read (wait_for_pending_reads in transfer.cc), so no lock is held meanwhile.
  bool releasing_ = false, again_ = false;
};

DeferredCommands &deferred_commands();

}  // namespace ckpt::ocl
