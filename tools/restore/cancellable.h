// SPDX-License-Identifier: Apache-2.0
//
// A restore is cancelled before its program runs, or not at all: what a program has done cannot be
// undone, and the next restore of the image would do it again.
#pragma once

#include <atomic>

namespace ckpt::tools {

class Cancellable {
 public:
  // By any thread. False: it was closed before, and nothing is cancelled.
  bool cancel(int signal) {
    int state = kOpen;
    return state_.compare_exchange_strong(state, signal) || state != kClosed;
  }

  // False: it was cancelled before.
  bool close() {
    int state = kOpen;
    return state_.compare_exchange_strong(state, kClosed);
  }

  // By which it was cancelled; 0: it was not.
  int signal() const {
    int state = state_;
    return state == kClosed ? 0 : state;
  }

 private:
  static constexpr int kOpen = 0, kClosed = -1;  // else: the signal

  std::atomic<int> state_ = kOpen;
};

}  // namespace ckpt::tools
