// SPDX-License-Identifier: Apache-2.0
//
// A call that cannot be cancelled and may not return in time, such as one of a driver. A thread of
// its own makes it, with all signals blocked, so that it handles none of the program's.
#pragma once

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/base/shortage.h"

namespace ckpt {

// Example:
//   CKPT_TRY(TimedCall<int> call, TimedCall<int>::begin([] { return slow(); }));
//   int *result = call.wait_until(deadline);  // null: slow() has not returned
template <class T>
class TimedCall {
 public:
  // The call owns all that it uses, because it may go on when this object has ended. Then `if_late`
  // gets its result, on the call's thread. An error: no thread can be started, and nothing is
  // called.
  static Result<TimedCall> begin(std::function<T()> call, std::function<void(T &)> if_late = {}) {
    auto state = std::make_shared<State>();
    state->call = std::move(call);
    state->if_late = std::move(if_late);
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    Result<std::thread> thread = start_thread([state] { state->run(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!thread) return Failure(thread.error());
    return TimedCall(std::move(state), std::move(*thread));
  }

  TimedCall(TimedCall &&) noexcept = default;
  TimedCall &operator=(TimedCall &&) = delete;
  // The thread has ended if the call has returned; otherwise it is left behind.
  ~TimedCall() {
    if (!thread_.joinable()) return;
    if (state_->abandon())
      thread_.detach();
    else
      thread_.join();
  }

  // The result, as long as this object lives; null: the call has not returned by then.
  T *wait_until(Clock::time_point deadline) {
    std::unique_lock lock(state_->mutex);
    auto returned = [&] { return state_->result.has_value(); };
    return state_->changed.wait_until(lock, deadline, returned) ? &*state_->result : nullptr;
  }

 private:
  struct State {
    std::function<T()> call;
    std::function<void(T &)> if_late;
    std::mutex mutex;  // guards what follows
    std::condition_variable changed;
    std::optional<T> result;
    bool abandoned = false;

    void run() {
      T value = call();
      std::unique_lock lock(mutex);
      result.emplace(std::move(value));
      changed.notify_all();
      bool late = abandoned && if_late;
      lock.unlock();
      if (late) if_late(*result);
    }
    // False: it has returned.
    bool abandon() {
      std::lock_guard lock(mutex);
      abandoned = !result;
      return abandoned;
    }
  };
  TimedCall(std::shared_ptr<State> state, std::thread thread)
      : state_(std::move(state)), thread_(std::move(thread)) {}

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace ckpt
