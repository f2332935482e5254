// SPDX-License-Identifier: Apache-2.0
//
// Shortage of memory, threads or file size as errors like all others. The C++ library reports the
// first two by exceptions, the kernel the last one by a signal.
#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <type_traits>

#include "common/base/result.h"

namespace ckpt {

// The error that an exception of the C++ library stands for.
Error error_of(const std::exception &e);

// Returns the Result of f(), or an error if f() throws. Does not catch the C library's exceptions,
// which end a thread (pthread_exit(3)) and must propagate.
template <class F>
std::invoke_result_t<F> guarded(F &&f) {
  try {
    return f();
  } catch (const std::exception &e) {
    return Failure(error_of(e));
  }
}

// An error if the system refuses another thread. `body` must not throw.
Result<std::thread> start_thread(std::function<void()> body);

// A write beyond the limit of file sizes (RLIMIT_FSIZE, `ulimit -f`) fails with EFBIG instead of
// ending this process. Programs that it executes get the default action back.
void survive_file_size_limit();

}  // namespace ckpt
