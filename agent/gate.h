// SPDX-License-Identifier: Apache-2.0
//
// Where an API's calls wait during a checkpoint. Every call passes its API's gate. While it is
// closed, new calls wait outside, calls inside finish, and those that wait for the device may step
// out meanwhile (pause), so that a thread in clFinish, say, never holds a checkpoint up.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ckpt {

class Gate {
 public:
  void enter() {
    if (depth_++ > 0) return;  // a callback that calls back into the API
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (closed_.load(std::memory_order_seq_cst)) wait_outside();
  }
  void leave() {
    if (--depth_ > 0) return;
    inside_.fetch_sub(1, std::memory_order_seq_cst);
    if (closed_.load(std::memory_order_seq_cst)) notify();
  }
  // A thread whose calls never wait, because the checkpoint waits for what it does.
  void exempt(bool on) { depth_ += on ? 1 : -1; }
  // The call that this thread is in is not one of a callback.
  bool outermost() const { return depth_ == 1; }
  bool closing() const { return closed_.load(std::memory_order_relaxed); }

  // Out while `f` runs, which may wait for a checkpoint to come and go; then in again.
  template <class F>
  auto outside(F f) {
    inside_.fetch_sub(1, std::memory_order_seq_cst);
    notify();
    auto result = f();
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (closed_.load(std::memory_order_seq_cst)) wait_outside();
    return result;
  }

  // For a thread inside that waits for the device: out while the gate is closed, then in again.
  void pause() {
    inside_.fetch_sub(1, std::memory_order_seq_cst);
    notify();
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (closed_.load(std::memory_order_seq_cst)) wait_outside();
  }

  void close() { closed_.store(true, std::memory_order_seq_cst); }
  // True once nobody is inside; false at the deadline (the gate stays closed).
  bool wait_empty(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [&] { return inside_.load() == 0; });
  }
  // In a fork's child, where the mutex may be held by a thread that is not there.
  void forget() {
    closed_.store(false);
    inside_.store(0);
  }
  void open() {
    std::lock_guard lock(mutex_);
    closed_.store(false, std::memory_order_seq_cst);
    changed_.notify_all();
  }

 private:
  void notify() {
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  void wait_outside() {
    std::unique_lock lock(mutex_);
    while (closed_.load()) {
      inside_.fetch_sub(1);
      changed_.notify_all();
      changed_.wait(lock, [&] { return !closed_.load(); });
      inside_.fetch_add(1);
    }
  }

  std::atomic<int> inside_{0};
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  static inline thread_local int depth_ = 0;
};

}  // namespace ckpt
