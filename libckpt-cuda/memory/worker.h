// SPDX-License-Identifier: Apache-2.0
//
// A thread that makes one call at a time for others: for a thread in a signal handler, which may
// have a stack of a few KiB, and for one in a host function, which may not call the driver.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace ckpt::cuda {

// Lives as long as the process, and so does its thread, with all signals blocked.
class Worker {
 public:
  // Once, before anything else.
  Result<> start();
  // Another call must not be there: the last one has returned.
  void begin(std::function<void()> call);
  bool busy() const;
  // Whether no call is there by then.
  bool wait_until(Clock::time_point deadline) const;
  // begin(), and waits for its end.
  void run(std::function<void()> call);

 private:
  [[noreturn]] void serve();

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::function<void()> call_;
};

}  // namespace ckpt::cuda
