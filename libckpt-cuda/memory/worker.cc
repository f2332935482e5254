// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/worker.h"

#include <csignal>
#include <thread>

#include "common/base/shortage.h"

namespace ckpt::cuda {

Result<> Worker::start() {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> thread = start_thread([this] { serve(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread) return Failure(thread.error());
  thread->detach();
  return {};
}

void Worker::begin(std::function<void()> call) {
  std::lock_guard lock(mutex_);
  call_ = std::move(call);
  changed_.notify_all();
}

bool Worker::busy() const {
  std::lock_guard lock(mutex_);
  return call_ != nullptr;
}

bool Worker::wait_until(Clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return call_ == nullptr; });
}

void Worker::run(std::function<void()> call) {
  begin(std::move(call));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return call_ == nullptr; });
}

void Worker::serve() {
  for (std::unique_lock lock(mutex_);;) {
    changed_.wait(lock, [&] { return call_ != nullptr; });
    lock.unlock();
    call_();
    lock.lock();
    call_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace ckpt::cuda
