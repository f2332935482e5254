// SPDX-License-Identifier: Apache-2.0
#include "storage/io/parallel.h"

#include <system_error>

namespace ckpt::storage {

bool add_thread(std::vector<std::thread> &threads, std::function<void()> body) {
  try {
    threads.emplace_back(std::move(body));
    return true;
  } catch (const std::system_error &) {  // the only way in which std::thread reports EAGAIN
    return false;
  }
}

void run_parallel(unsigned threads, const std::function<void(unsigned worker)> &body) {
  std::vector<std::thread> others;
  others.reserve(threads);
  for (unsigned i = 1; i < threads; ++i)
    if (!add_thread(others, [&body, i] { body(i); })) break;
  body(0);
  for (std::thread &t : others) t.join();
}

}  // namespace ckpt::storage
