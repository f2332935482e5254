// SPDX-License-Identifier: Apache-2.0
//
// Functions that other threads have run in a poll(2) loop.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

class PostedCalls {
 public:
  Result<> open();
  int fd() const { return wake_.get(); }  // readable if there are any
  // By any thread.
  void add(std::function<void()> f);
  // In the loop.
  void run();

 private:
  UniqueFd wake_;
  std::mutex mutex_;
  std::vector<std::function<void()>> all_;
};

}  // namespace ckpt::tools
