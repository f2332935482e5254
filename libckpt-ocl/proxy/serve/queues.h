// SPDX-License-Identifier: Apache-2.0
//
// The application's queues on this side: what was enqueued, and who hears when it is over. The
// driver calls us when a command is over, on a thread of its own, so no thread of ours waits.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "libckpt-ocl/proxy/serve/channel.h"
#include "libckpt-ocl/proxy/serve/objects.h"

namespace ckpt::ocl {

class Queues {
 public:
  // Both live as long as the process: the driver may call at any time.
  Queues(Channel &channel, Objects &objects) : channel_(channel), objects_(objects) {}

  void add(cl_command_queue queue);
  void remove(cl_command_queue queue);
  bool has(cl_command_queue queue) const { return queues_.contains(queue); }

  // A command was enqueued; takes over `event`. The client hears of it as `number`; 0: it does not
  // want to. `data` lives until the command is over.
  void enqueued(cl_command_queue queue, u64 number, cl_event event, Bytes data);
  // A completion `number` once everything that was enqueued is over.
  cl_int complete_after_all(cl_command_queue queue, u64 number);
  // Hands what was enqueued to the devices; to be called before the serving thread sleeps.
  void flush();
  // Lets go of events that are over. Only the serving thread does, between two commands, so that an
  // event which a command has looked up stays valid while the driver is called with it.
  void release_finished();

 private:
  struct Queue {
    bool profiling, out_of_order;
    bool here;                // commands are finished by the thread that enqueues them (quirks.h)
    cl_event last = nullptr;  // the newest command, if nobody wants to hear of it
    u32 unflushed = 0;
  };
  struct Pending {
    Queues *queues;
    u64 number;
    bool profiling;
    Bytes data;
  };
  void watch(Queue &q, u64 number, cl_event event, Bytes data);
  void flush(cl_command_queue handle, Queue &q);
  void finish(const Pending &p, cl_event event, cl_int status);
  static void CL_CALLBACK on_event_finished(cl_event event, cl_int status, void *pending);

  Channel &channel_;
  Objects &objects_;
  std::unordered_map<cl_command_queue, Queue> queues_;
  std::atomic<bool> any_finished_{false};
  std::mutex finished_mutex_;
  std::vector<cl_event> finished_;
};

}  // namespace ckpt::ocl
