// SPDX-License-Identifier: Apache-2.0
//
// Host functions run in the program, while the stream here waits for them.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>

#include "remote/cuda/server/driver.h"

namespace ckpt::remote::cuda {

class HostCalls {
 public:
  using Send = std::function<void(u64 token)>;
  // When the stream is there, `send` tells the program, and the stream waits for done().
  CUresult enqueue(CUstream stream, u64 token, Send send);
  // The program's function has returned. False: none was under way.
  bool done(u64 token);

 private:
  struct Pending {
    HostCalls &all;
    u64 token;
    Send send;
  };
  static void run(void *data);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<u64> running_;
};

}  // namespace ckpt::remote::cuda
