// SPDX-License-Identifier: Apache-2.0
//
// What may not happen in the middle of a checkpoint waits before this door until it is over: a new
// participant, a connection to the session keeper.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ckpt {

class Door {
 public:
  // Waits while the door is shut; leave() when done.
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

class Visit {
 public:
  explicit Visit(Door &door) : door_(door) { door_.enter(); }
  ~Visit() { door_.leave(); }
  Visit(const Visit &) = delete;
  Visit &operator=(const Visit &) = delete;

 private:
  Door &door_;
};

}  // namespace ckpt
