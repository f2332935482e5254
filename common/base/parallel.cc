// SPDX-License-Identifier: Apache-2.0
#include "common/base/parallel.h"

#include <exception>
#include <mutex>
#include <vector>

#include "common/base/shortage.h"

namespace ckpt {

void run_parallel(unsigned threads, const std::function<void(unsigned worker)> &body) {
  std::mutex mutex;
  std::exception_ptr thrown;
  auto call = [&](unsigned worker) {
    try {
      body(worker);
    } catch (...) {
      std::lock_guard lock(mutex);
      thrown = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  others.reserve(threads);
  for (unsigned i = 1; i < threads; ++i) {
    Result<std::thread> thread = start_thread([&call, i] { call(i); });
    if (!thread) break;
    others.push_back(std::move(*thread));
  }
  call(0);
  for (std::thread &t : others) t.join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace ckpt
