// SPDX-License-Identifier: Apache-2.0
//
// Where an API's calls wait during a checkpoint. Every call passes its API's gate. While it is
// closed, new calls wait outside, calls inside finish, and those that wait for the device may step
// out meanwhile (pause), so that a thread in clFinish, say, never holds a checkpoint up.
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "common/base/bytes.h"

namespace ckpt::agent {

class Gate {
 public:
  void enter() {
    if (depth_++ > 0) return;  // a callback that calls back into the API
    inside_.fetch_add(kEntry, std::memory_order_seq_cst);
    if (timed_.load(std::memory_order_relaxed)) note_time();
    if (closed_.load(std::memory_order_seq_cst)) wait_outside();
  }
  void leave() {
    if (--depth_ > 0) return;
    inside_.fetch_sub(1, std::memory_order_seq_cst);
    if (closed_.load(std::memory_order_seq_cst)) notify();
  }
  // A thread whose calls never wait, because the checkpoint waits for what it does.
  void exempt(bool on) { depth_ += on ? 1 : -1; }
  // Calls that have come in so far, modulo 2^32, and when the last one did: CLOCK_MONOTONIC_COARSE,
  // nanoseconds; and the bytes that they copied. Both noted from the first question on.
  struct Entered {
    u32 count = 0;
    i64 last = 0;
    u64 copied = 0;
  };
  Entered entered() {
    timed_.store(true, std::memory_order_relaxed);
    return {static_cast<u32>(inside_.load() >> 32), last_.load(std::memory_order_relaxed),
            copied_.load(std::memory_order_relaxed)};
  }
  // Somebody has asked for entered().
  bool watched() const { return timed_.load(std::memory_order_relaxed); }
  // So many bytes are on their way between the host and a device.
  void copied(u64 bytes) {
    if (bytes > 0) copied_.fetch_add(bytes, std::memory_order_relaxed);
  }
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
    return changed_.wait_until(lock, deadline, [&] { return nobody_inside(); });
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
  static constexpr u64 kEntry = (u64{1} << 32) + 1;

  bool nobody_inside() const { return static_cast<u32>(inside_.load()) == 0; }
  void note_time() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    last_.store(t.tv_sec * 1'000'000'000 + t.tv_nsec, std::memory_order_relaxed);
  }
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

  // In one word, so that counting costs nothing. Low half: inside now; high half: ever came in.
  std::atomic<u64> inside_{0};
  std::atomic<i64> last_{0};
  std::atomic<u64> copied_{0};
  std::atomic<bool> timed_{false};
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  static inline thread_local int depth_ = 0;
};

}  // namespace ckpt::agent
