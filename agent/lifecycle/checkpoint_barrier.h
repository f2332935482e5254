// SPDX-License-Identifier: Apache-2.0
//
// What may not happen in the middle of a checkpoint waits before this barrier until it is over: a
// new participant, a connection to the session keeper.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ckpt::agent {

class CheckpointBarrier {
 public:
  // Waits while the barrier is shut; leave() when done.
  void enter();
  void leave();
  void shut();
  void open();
  // Whether everybody who was inside when it was shut has left in time.
  bool wait_empty(std::chrono::milliseconds patience);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool shut_ = false;
  int inside_ = 0;
};

class BarrierPass {
 public:
  explicit BarrierPass(CheckpointBarrier &barrier) : door_(barrier) { door_.enter(); }
  ~BarrierPass() { door_.leave(); }
  BarrierPass(const BarrierPass &) = delete;
  BarrierPass &operator=(const BarrierPass &) = delete;

 private:
  CheckpointBarrier &door_;
};

}  // namespace ckpt::agent
