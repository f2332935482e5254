// SPDX-License-Identifier: Apache-2.0
//
// Commands that wait here, in the application, for a user event, and what is behind them in their
// queues. The proxy never hears of a user event: so nothing that waits for one can keep a
// checkpoint from draining the device, and the commands survive it as what they are, records of
// ours (facts/opencl.md, "Pending commands behind an unset user event"). It also means that host
// memory is read when such a command runs, and that a queue which is really in-order can stand for
// one that is not.
#pragma once

#include <functional>
#include <list>

#include "libckpt-ocl/client/command/command.h"

namespace ckpt::ocl {

class DeferredCommands {
 public:
  bool none() const { return user_events_.load() == 0 && commands_.load() == 0; }
  void user_event_made() { user_events_.fetch_add(1); }
  // A user event was set or destroyed unset.
  void user_event_gone() { user_events_.fetch_sub(1); }
  void add(Command c, std::function<cl_int(Command &)> send);
  // Sends what is behind nothing any more, in the order in which it was enqueued.
  void release();

 private:
  struct Entry {
    Command command;
    std::function<cl_int(Command &)> send;
    bool all, barrier;
  };
  std::list<Entry>::iterator next_ready();
  void run(Entry &e);

  std::atomic<u32> user_events_{0}, commands_{0};
  std::mutex mutex_;
  std::list<Entry> list_;
  // One thread releases; what becomes ready meanwhile is left to it. It may have to wait for a read
  // (transfer.cc, settle), and must hold no lock then.
  bool releasing_ = false, again_ = false;
};

DeferredCommands &deferred_commands();

}  // namespace ckpt::ocl
