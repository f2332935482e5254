// SPDX-License-Identifier: Apache-2.0
//
// The calls of one thread of the program, executed in their order by one thread of the server. So
// the driver's state for each thread (the current context, the per-thread default stream) is that
// of the program's thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "common/base/bytes.h"

namespace ckpt::remote::cuda {

class Lane {
 public:
  explicit Lane(std::function<void(ByteView)> execute);
  // Ends its thread after the calls that it has.
  ~Lane();
  Lane(const Lane &) = delete;

  // Waits while the lane has a lot of work, so that a program cannot fill the server's memory.
  void push(Bytes call, bool one_way);
  // Until every one-way call that it was given has been executed.
  void wait_for_one_way();

 private:
  struct Item {
    Bytes call;
    bool one_way;
  };
  void run();

  std::function<void(ByteView)> execute_;
  std::mutex mutex_;
  std::condition_variable given_, taken_;
  std::deque<Item> items_;
  size_t bytes_ = 0;    // of items_
  size_t one_way_ = 0;  // given, and not executed yet
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace ckpt::remote::cuda
