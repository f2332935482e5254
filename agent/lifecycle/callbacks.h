// SPDX-License-Identifier: Apache-2.0
//
// The program's callbacks around a checkpoint (ckpt_on_checkpoint). They run on the agent's thread
// with no lock of ours held.
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
  // Waits for a callback that is running, unless it is the caller.
  bool remove(int id);

  // Stops at the first that refuses.
  Result<> before();
  // For those that agreed since the last after(), in the opposite order.
  void after(ckpt_outcome outcome);

 private:
  struct Pair {
    int id = 0;
    ckpt_before_fn before = nullptr;
    ckpt_after_fn after = nullptr;
    void *user = nullptr;
    bool agreed = false;
  };
  std::vector<int> ids();
  Result<> ask(int id);
  void tell(int id, ckpt_outcome outcome);
  Pair *find(int id);  // mutex_ is held
  template <class Call>
  void run_unlocked(std::unique_lock<std::mutex> &lock, int id, Call call);

  std::mutex mutex_;
  std::condition_variable idle_;
  std::vector<Pair> pairs_;
  int next_id_ = 1;
  int running_ = 0;  // id of the pair that is being called
  std::thread::id caller_;
};

}  // namespace ckpt::agent
