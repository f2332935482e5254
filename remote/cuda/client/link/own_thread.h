// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <thread>

namespace ckpt::remote::cuda {

// A detached thread of the library, on which no signal of the program is handled.
template <class F>
void start_own_thread(F f) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(std::move(f)).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace ckpt::remote::cuda
