// SPDX-License-Identifier: Apache-2.0
//
// Waits for the commands of one in-order queue, in order, and tells the client when each is over.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>

#include "libckpt-ocl/proxy/channel.h"
#include "libckpt-ocl/proxy/objects.h"

namespace ckpt::ocl {

class Completer : public std::enable_shared_from_this<Completer> {
 public:
  // `here`: commands are finished by the thread that enqueues them, for a driver that cannot be
  // called from several threads at once. `channel` and `objects` live as long as the process.
  static std::shared_ptr<Completer> start(Channel &channel, Objects &objects, bool profiling,
                                          bool here);
  // No more commands will come. Does not wait for those that are under way.
  void retire();

  // A command was enqueued; takes over `event`. `data` lives until the command is over.
  void add(u64 number, cl_event event, Bytes data);

  Completer(Channel &channel, Objects &objects, bool profiling, bool here)
      : channel_(channel), objects_(objects), profiling_(profiling), here_(here) {}

 private:
  struct Pending {
    u64 number;
    cl_event event;
    Bytes data;
  };
  void run();
  void finish(const Pending &p);

  Channel &channel_;
  Objects &objects_;
  bool profiling_, here_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> pending_;
  bool stop_ = false;
};

}  // namespace ckpt::ocl
