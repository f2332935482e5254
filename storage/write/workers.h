// SPDX-License-Identifier: Apache-2.0
//
// Threads that run tasks of a known weight, with a limit on the total weight of the tasks that wait
// or run. The writer uses it to bound its memory. Tasks report errors themselves.
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

  // Starts fewer threads than requested if the system refuses more, but at least one. `yielding`
  // leaves the cores to the submitting threads: tasks start only when half of max_weight is in use,
  // when submit() has to wait, or in drain(), and run at a lower priority.
  static Result<std::unique_ptr<Workers>> start(unsigned threads, size_t max_weight, bool yielding);
  // Runs the waiting tasks, then joins the threads.
  ~Workers();

  // Waits while the total weight would exceed the limit; a single task may be heavier than the
  // limit. The task's argument is below count(). A task must not call submit().
  void submit(size_t weight, Task task);
  // Returns when no task waits or runs.
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
  size_t weight_ = 0;     // of the tasks that wait or run
  unsigned blocked_ = 0;  // calls of submit() that wait
  bool draining_ = false;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ckpt::storage
