// SPDX-License-Identifier: Apache-2.0
#include "agent/lifecycle/checkpoint_barrier.h"

namespace ckpt::agent {

void CheckpointBarrier::enter() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !shut_; });
  inside_++;
}

void CheckpointBarrier::leave() {
  std::scoped_lock lock(mutex_);
  inside_--;
  changed_.notify_all();
}

void CheckpointBarrier::shut() {
  std::scoped_lock lock(mutex_);
  shut_ = true;
}

void CheckpointBarrier::open() {
  std::scoped_lock lock(mutex_);
  shut_ = false;
  changed_.notify_all();
}

bool CheckpointBarrier::wait_empty(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return inside_ == 0; });
}

}  // namespace ckpt::agent
