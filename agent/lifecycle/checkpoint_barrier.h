// SPDX-License-Identifier: Apache-2.0
//
// Delays operations that must not begin during a checkpoint: adding a participant, connecting to
// the session keeper.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ckpt::agent {

class CheckpointBarrier {
 public:
  // One operation. The constructor waits while the barrier is closed.
  class Pass {
   public:
    explicit Pass(CheckpointBarrier &barrier) : barrier_(barrier) { barrier_.enter(); }
    ~Pass() { barrier_.leave(); }
    Pass(const Pass &) = delete;
    Pass &operator=(const Pass &) = delete;

   private:
    CheckpointBarrier &barrier_;
  };

  void close();
  void open();
  // Waits for the operations that began before close(); false: some have not ended after `timeout`.
  bool wait_empty(std::chrono::milliseconds timeout);

 private:
  void enter();
  void leave();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  int inside_ = 0;
};

}  // namespace ckpt::agent
