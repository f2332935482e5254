// SPDX-License-Identifier: Apache-2.0
//
// Threads that run tasks of a known weight, with a bound on the weight that waits: a writer's
// memory bound. Tasks do not fail here; what they find they keep.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/base/result.h"

namespace ckpt::storage {

class Workers {
 public:
  using Task = std::function<void(unsigned worker)>;

  // Starts fewer threads than asked for where the system gives no more, but at least one.
  // `yielding`: they leave the cores to whoever submits: they begin when half of max_weight is
  // taken or drain() is called, and then with less than an ordinary thread's priority.
  static Result<std::unique_ptr<Workers>> start(unsigned threads, size_t max_weight, bool yielding);
  // Runs what waits, then joins.
  ~Workers();

  // Blocks while the weight that waits or runs would pass the bound; a single task may be heavier
  // than it. `worker` is below count(). A task must not submit.
  void submit(size_t weight, Task task);
  // Returns when nothing waits or runs.
  void drain();
  unsigned count() const { return static_cast<unsigned>(threads_.size()); }

 private:
  struct Entry {
    size_t weight;
    Task task;
  };
  Workers(size_t max_weight, bool yielding) : max_weight_(max_weight), yielding_(yielding) {}
  void run(unsigned worker);
  bool may_work() const;

  const size_t max_weight_;
  const bool yielding_;
  std::mutex mutex_;
  std::condition_variable work_, room_;
  std::deque<Entry> waiting_;
  size_t weight_ = 0;     // of what waits or runs
  unsigned blocked_ = 0;  // submitters that wait for room
  bool draining_ = false;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

// Runs body(worker) on `threads` threads, the caller's among them, and returns when all returned.
void run_parallel(unsigned threads, const std::function<void(unsigned worker)> &body);

}  // namespace ckpt::storage
