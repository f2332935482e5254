// SPDX-License-Identifier: Apache-2.0
//
// Deferred commands: enqueued commands that the driver has not received
//
// A checkpoint waits until the devices are idle. So the driver gets only commands that finish soon
// and by themselves; all others stay in the application. There are two reasons to defer a command.
//
// *A user event* is an event that the application itself completes (clSetUserEventStatus). A
// command may wait for one:
//
//   e = clCreateUserEvent(context)
//   clEnqueueNDRangeKernel(q, k, …, wait list {e}, &f)
//   clEnqueueReadBuffer(q, …)                 in-order queue: behind the kernel
//   …                                         a checkpoint may come here
//   clSetUserEventStatus(e, CL_COMPLETE)      now both may run
//
// If both commands were in the driver when the checkpoint comes, the device could never drain: they
// wait for a call that the application makes only after the checkpoint. So the proxy never learns
// of user events.
//
// *A full window* (window.h): enough commands are under way, and a checkpoint would wait for all of
// them.
//
// A deferred command stays in the application, as an entry of its queue's list here, with
// everything it needs: its arguments, references to its objects, and a function that sends it. CRIU
// saves the lists with the application's memory, and a restored copy sends the commands to its new
// device.
//
// A command is deferred if (Command::can_send_now)
//   - an event of its wait list is an unset user event or belongs to a deferred command, or
//   - its queue is in-order and holds a deferred command, or
//   - its queue is out-of-order and a barrier in it is deferred, or
//   - it is a marker or barrier without a wait list, and its queue holds a deferred command, or
//   - the window of its queue is full, or a deferred command waits for room there.
//
// release() sends the first entry of a queue that no longer matches one of these rules, and repeats
// until none is left. Entries of a queue stay in the order in which they were enqueued. It is
// called when a user event is set, and, where windows were full, by a thread of this library: the
// *feeder* sleeps until a pulse has made room. It is needed because the application may compute for
// minutes without an OpenCL call, and its commands must run meanwhile. The feeder is inside the
// gate while it sends, and leaves it for a checkpoint, like every thread that waits.
//
// A transfer in pieces that is not deferred makes the later commands of an in-order queue line up
// here until its last piece was sent (SentInPieces).
//
// A launch in slices (client/slices/) is sent in parts: its entry stays the first of its queue
// until the last part was sent.
//
// The application waits when kMostKept commands are deferred, until half of them were sent:
// otherwise the memory of a program that enqueues faster than its device computes would grow
// without limit. While a user event is unset it never waits, because it may be about to set it.
//
// Each search is linear in the number of queues, and in the entries of an out-of-order queue, so
// releasing n commands that wait for events of an out-of-order queue costs O(n²) at worst. A
// command that is sent at once pays a few loads; a deferred one about a microsecond for its memory,
// which the device does not notice, since it has kAhead of work meanwhile.
//
// Two consequences. Host memory is read when a deferred write is sent, as the specification
// demands. And an in-order queue of a new device can stand for an out-of-order one: only a command
// that waits for the application can show the difference, and such commands never reach the proxy.
//
// Source: OpenCL 3.0 specification, section 5.11 (Event Objects) and clSetUserEventStatus.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>

#include "libckpt-ocl/client/command/command.h"

namespace ckpt::ocl {

class DeferredCommands {
 public:
  // No command can depend on a deferred one now.
  bool none() const { return user_events_.load() == 0 && commands_.load() == 0; }
  // Whether a user event is unset.
  bool user_events() const { return user_events_.load() != 0; }
  void user_event_created() { user_events_.fetch_add(1); }
  // A user event was set, or destroyed unset.
  void user_event_gone() { user_events_.fetch_sub(1); }
  // May wait until other commands were sent; the caller holds no lock.
  void add(Command c, std::function<cl_int(Command &)> send);
  // Sends every command that can be sent.
  void release();
  // See SentInPieces.
  bool begin_pieces(Queue &q);
  void end_pieces(Queue &q);
  // Starts the feeder. Returns false if that is impossible: windows must be without limit then.
  bool can_feed();

 private:
  struct Entry {
    Command command;
    std::function<cl_int(Command &)> send;
    bool waits_for_all, barrier;
    u64 since;  // ns of CLOCK_MONOTONIC

    // Whether the entry, or its next part, has room in the queue's window.
    bool has_room() {
      return command.may_send_ ? command.may_send_() : ocl::has_room(command.queue());
    }
  };
  using Entries = std::list<Entry>;

  void wait_for_room();
  Entries::iterator ready_in(const Queue &q, Entries &entries);
  Entries take_ready();
  bool any_ready();
  bool run(Entry &e);
  void put_back(Entries &one);
  [[noreturn]] void feed();

  std::atomic<u32> user_events_{0}, commands_{0};
  std::mutex mutex_;
  std::map<Queue *, Entries> queues_;  // each entry keeps its queue
  // One thread releases at a time; another thread sets again_ and leaves the rest to it. Sending
  // may wait for a read (wait_for_pending_reads in transfer.cc), so no lock is held meanwhile.
  bool releasing_ = false, again_ = false;
  bool held_back_ = false;  // a command only waits for room in its queue's window
  std::condition_variable fed_;
  std::once_flag feeder_started_;
  bool can_feed_ = false;
};

DeferredCommands &deferred_commands();

// While a thread sends a transfer in pieces, it counts as a deferred command of its in-order queue:
// commands of other threads line up behind the last piece, as behind one command. No lock is held,
// because the thread may leave the gate between two pieces.
class SentInPieces {
 public:
  // Does nothing for a command that is deferred itself, or whose order is free.
  explicit SentInPieces(Queue &q) : queue_(&q), begun_(deferred_commands().begin_pieces(q)) {}
  SentInPieces(const SentInPieces &) = delete;
  ~SentInPieces() {
    if (begun_) deferred_commands().end_pieces(*queue_);
  }

 private:
  Ref<Queue> queue_;
  bool begun_;
};

}  // namespace ckpt::ocl
