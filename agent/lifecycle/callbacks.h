// SPDX-License-Identifier: Apache-2.0
//
// The program's callbacks around a checkpoint (ckpt_on_checkpoint). They run on the agent's thread,
// which holds no lock meanwhile.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "ckpt/ckpt.h"
#include "common/base/result.h"

namespace ckpt::agent {

class Callbacks {
 public:
  int add(ckpt_before_fn before, ckpt_after_fn after, void *user);
  // Waits until the callback has returned, unless it is the caller itself.
  bool remove(int id);
  // The number of pairs with a `before`.
  size_t count_before();

  // Calls `before` of each pair, up to the first that refuses.
  Result<> before();
  // Calls `after` of the pairs that have agreed since the last after(), in reverse order.
  void after(ckpt_outcome outcome);

 private:
  struct Pair {
    int id = 0;
    ckpt_before_fn before = nullptr;
    ckpt_after_fn after = nullptr;
    void *user = nullptr;
    bool agreed = false;  // `before` has returned 0, and `after` is to be called
  };
  std::vector<int> ids();
  Result<> call_before(int id);
  void call_after(int id, ckpt_outcome outcome);
  Pair *find(int id);  // with mutex_ held
  template <class Call>
  void run_unlocked(std::unique_lock<std::mutex> &lock, int id, Call call);

  std::mutex mutex_;
  std::condition_variable idle_;
  std::vector<Pair> pairs_;
  int next_id_ = 1;
  int running_ = 0;  // id of the pair that is being called; 0: none
  std::thread::id caller_;
};

}  // namespace ckpt::agent
