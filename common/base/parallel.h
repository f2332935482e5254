// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace ckpt {

// Calls body(worker) on `threads` threads, one of which is the caller's, and returns when all calls
// have returned. If the system refuses a thread, fewer take part. An exception of a call is thrown
// again when all have returned.
void run_parallel(unsigned threads, const std::function<void(unsigned worker)> &body);

}  // namespace ckpt
