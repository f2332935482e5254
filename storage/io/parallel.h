// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace ckpt::storage {

// Starts a thread and appends it to `threads`. Returns false if the system refuses another thread.
bool add_thread(std::vector<std::thread> &threads, std::function<void()> body);

// Calls body(worker) on `threads` threads, one of which is the caller's, and returns when all calls
// have returned. If the system refuses a thread, fewer take part.
void run_parallel(unsigned threads, const std::function<void(unsigned worker)> &body);

}  // namespace ckpt::storage
