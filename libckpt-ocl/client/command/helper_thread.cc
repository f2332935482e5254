// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/command/helper_thread.h"

#include <pthread.h>
#include <signal.h>

#include <memory>

namespace ckpt::ocl {
namespace {

struct Start {
  void (*run)(void *);
  void *argument;
};

void *run_started(void *start) {
  Start s = *std::unique_ptr<Start>(static_cast<Start *>(start));
  s.run(s.argument);
  return nullptr;
}

}  // namespace

bool start_helper_thread(const char *name, void (*run)(void *), void *argument) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  auto start = std::make_unique<Start>(Start{run, argument});
  pthread_t thread;
  bool started = ::pthread_create(&thread, nullptr, run_started, start.get()) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return false;
  (void)start.release();  // the thread has it
  ::pthread_setname_np(thread, name);
  ::pthread_detach(thread);
  return true;
}

}  // namespace ckpt::ocl
