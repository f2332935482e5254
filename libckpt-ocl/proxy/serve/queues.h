// SPDX-License-Identifier: Apache-2.0
//
// The application's queues in the proxy: what was enqueued, and which commands get a completion.
// The driver calls back on a thread of its own when a command has finished, so no thread here
// waits.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "libckpt-ocl/proxy/serve/objects.h"
#include "libckpt-ocl/proxy/serve/output.h"
#include "ring/channel.h"

namespace ckpt::ocl {

class Queues {
 public:
  // All live as long as the process, because the driver may call back at any time.
  Queues(Channel &channel, Output &output, Objects &objects)
      : channel_(channel), output_(output), objects_(objects) {}

  void add(cl_command_queue queue);
  void remove(cl_command_queue queue);
  bool has(cl_command_queue queue) const { return queues_.contains(queue); }

  // A command was enqueued; takes over `event`. The completion goes to the client's event `number`;
  // 0: none is sent. `data` lives until the command has finished.
  void enqueued(cl_command_queue queue, u64 number, cl_event event, Bytes data);
  // Sends a completion `number` once everything enqueued so far has finished.
  cl_int complete_after_all(cl_command_queue queue, u64 number);
  // Submits the enqueued commands to the devices. Called before the serving thread sleeps.
  void flush();
  // Releases finished events. Only the serving thread calls it, between two commands, so that an
  // event stays valid while a command passes it to the driver.
  void release_finished();

 private:
  // For how long a queue has been busy: the sum of the times from a command's beginning, or from
  // the end of the one before it, to its end. Drivers call back on any thread.
  class Busy {
   public:
    // Commands that were enqueued from `since` on have finished. Returns Completion::busy.
    u32 until_now(Clock::time_point since);

   private:
    std::mutex mutex_;
    Clock::time_point until_{};
    Clock::duration sum_{};
  };
  struct Queue {
    bool profiling, out_of_order;
    bool wait_at_once;        // the serving thread waits for each command (quirks.h)
    cl_event last = nullptr;  // the newest command, if it gets no completion
    u32 unflushed = 0;
    std::optional<Clock::time_point> since;  // the first command after the last watched one
    std::shared_ptr<Busy> busy = std::make_shared<Busy>();
  };
  struct Pending {
    Queues *queues;
    u64 number;
    bool profiling;
    Bytes data;
    std::shared_ptr<Busy> busy;
    Clock::time_point since;
  };
  void watch(Queue &q, u64 number, cl_event event, Bytes data);
  void flush(cl_command_queue handle, Queue &q);
  void finish(const Pending &p, cl_event event, cl_int status);
  static void CL_CALLBACK on_event_finished(cl_event event, cl_int status, void *pending);

  Channel &channel_;
  Output &output_;
  Objects &objects_;
  std::unordered_map<cl_command_queue, Queue> queues_;
  std::atomic<bool> any_finished_{false};
  std::mutex finished_mutex_;
  std::vector<cl_event> finished_;
};

}  // namespace ckpt::ocl
