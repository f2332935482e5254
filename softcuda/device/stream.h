// SPDX-License-Identifier: Apache-2.0
//
// A queue of work and the thread that does it, in order. Work may wait for work of other streams.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "common/bytes.h"

namespace ckpt::softcuda {

class WorkQueue;

// A point in a queue: all work up to and including number `upto`.
struct Point {
  std::shared_ptr<WorkQueue> queue;
  u64 upto = 0;

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
  };
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> works_;
  u64 submitted_ = 0;
  u64 done_ = 0;
  bool started_ = false;
  bool closed_ = false;
};

}  // namespace ckpt::softcuda
