// SPDX-License-Identifier: Apache-2.0
//
// A queue of work and the thread that executes it in order. Work may wait for work of other queues.
//
// Each work has a model time, for the optional model of the device's speed. It starts as the time
// at which the work could begin: when it was submitted, and all work before it had ended in the
// model. Code that models a duration advances it. So a thread that wakes up late delays nothing in
// the model.
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
// The model time of the work that this thread executes; the same unit and clock.
i64 &model_time();

// A point in a queue: the end of the work with this number, and of all before it.
struct Point {
  std::shared_ptr<WorkQueue> queue;
  u64 number = 0;
  std::shared_ptr<const i64> end;  // in model time; valid once the point is reached

  void wait() const;
  bool reached() const;
};

class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  // Returns the point at the end of this work. Thread-safe.
  Point submit(std::function<void()> work, std::vector<Point> after = {});
  Point last();
  bool reached(u64 number);
  void wait(u64 number);
  // No more work will be submitted. The thread finishes what is pending and ends.
  void close();

 private:
  struct Work {
    std::function<void()> run;
    std::vector<Point> after;
    i64 submitted = 0;
    std::shared_ptr<i64> end;
  };
  void run(Work &work);
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> pending_;
  std::shared_ptr<i64> last_end_ = std::make_shared<i64>(0);
  i64 previous_end_ = 0;  // of the work before, in model time; used by the thread only
  u64 submitted_ = 0;
  u64 done_ = 0;
  bool started_ = false;
  bool closed_ = false;
};

}  // namespace ckpt::softcuda
