// SPDX-License-Identifier: Apache-2.0
#include "agent/lifecycle/checkpoint_barrier.h"

namespace ckpt::agent {

void CheckpointBarrier::enter() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !closed_; });
  inside_++;
}

void CheckpointBarrier::leave() {
  std::scoped_lock lock(mutex_);
  inside_--;
  changed_.notify_all();
}

void CheckpointBarrier::close() {
  std::scoped_lock lock(mutex_);
  closed_ = true;
}

void CheckpointBarrier::open() {
  std::scoped_lock lock(mutex_);
  closed_ = false;
  changed_.notify_all();
}

bool CheckpointBarrier::wait_empty(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return inside_ == 0; });
}

}  // namespace ckpt::agent
