// SPDX-License-Identifier: Apache-2.0
//
// A queue of work and the thread that does it, in order. Work may wait for work of other streams.
//
// Each work has its *moment*, for a model of the device's time: at first when it could begin, that
// is when it had been submitted and all before it was over in the model; whoever gives it a
// duration moves it on. So a thread that wakes up late makes nothing begin late.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::softcuda {

class WorkQueue;

// CLOCK_MONOTONIC in nanoseconds.
i64 device_now();
// Of the work that this thread does.
i64 &moment();

// A point in a queue: all work up to and including number `upto`.
struct Point {
  std::shared_ptr<WorkQueue> queue;
  u64 upto = 0;
  std::shared_ptr<const i64> over;  // the moment at which it was, once it is reached

  void wait() const;
  bool reached() const;
};

class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  // Thread-safe. Returns the point behind this work.
  Point submit(std::function<void()> work, std::vector<Point> after = {});
  Point last();
  bool reached(u64 upto);
  void wait(u64 upto);
  // No work comes any more; what was submitted is done, then the thread ends.
  void close();

 private:
  struct Work {
    std::function<void()> run;
    std::vector<Point> after;
    i64 submitted = 0;
    std::shared_ptr<i64> over;
  };
  void run(Work &work);
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> works_;
  std::shared_ptr<i64> last_over_ = std::make_shared<i64>(0);
  i64 before_ = 0;  // the moment of the work that was done last; only the thread's
  u64 submitted_ = 0;
  u64 done_ = 0;
  bool started_ = false;
  bool closed_ = false;
};

}  // namespace ckpt::softcuda
