// SPDX-License-Identifier: Apache-2.0
//
// The gate that every call of an API passes. While a checkpoint keeps it closed, new calls wait in
// front of it and calls inside finish. A call that waits for the device leaves the gate meanwhile
// (pause, outside), so that a thread in clFinish() does not delay the checkpoint.
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "common/base/bytes.h"
#include "common/base/clock.h"

namespace ckpt::agent {

class Gate {
 public:
  void enter() {
    if (depth_++ > 0) return;  // a nested call, from a callback
    inside_.fetch_add(kEntry, std::memory_order_seq_cst);
    if (timed_.load(std::memory_order_relaxed)) note_time();
    if (closed_.load(std::memory_order_seq_cst)) wait_outside();
  }
  void leave() {
    if (--depth_ > 0) return;
    inside_.fetch_sub(1, std::memory_order_seq_cst);
    if (closed_.load(std::memory_order_seq_cst)) notify();
  }
  // For a thread whose calls must not wait, because the checkpoint waits for that thread.
  void exempt(bool on) { depth_ += on ? 1 : -1; }
  // The number of calls so far (modulo 2^32), the time of the last one in nanoseconds of
  // CLOCK_MONOTONIC_COARSE, and the bytes that they copied. Time and bytes are recorded from the
  // first entered() on.
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
  // Whether entered() was called before.
  bool watched() const { return timed_.load(std::memory_order_relaxed); }
  // Records a copy of `bytes` bytes between host and device.
  void copied(u64 bytes) {
    if (bytes > 0) copied_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // Whether the current call of this thread is not nested in another one.
  bool outermost() const { return depth_ == 1; }
  // Whether this thread is in a call.
  bool within() const { return depth_ > 0; }
  bool closing() const { return closed_.load(std::memory_order_relaxed); }

  // Leaves the gate while `f` runs, so that a whole checkpoint may take place meanwhile.
  template <class F>
  auto outside(F f) {
    inside_.fetch_sub(1, std::memory_order_seq_cst);
    notify();
    auto result = f();
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (closed_.load(std::memory_order_seq_cst)) wait_outside();
    return result;
  }

  // For a thread inside that waits for the device: leaves the gate while it is closed.
  void pause() {
    inside_.fetch_sub(1, std::memory_order_seq_cst);
    notify();
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (closed_.load(std::memory_order_seq_cst)) wait_outside();
  }

  void close() { closed_.store(true, std::memory_order_seq_cst); }
  // Waits until no call is inside; false: some still are at the deadline. The gate stays closed.
  bool wait_empty(Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [&] { return empty(); });
  }
  // In a forked child. Takes no lock, because a thread that does not exist there may hold the
  // mutex.
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

  bool empty() const { return static_cast<u32>(inside_.load()) == 0; }
  void note_time() { last_.store(coarse_monotonic_ns(), std::memory_order_relaxed); }
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

  // Low half: calls inside; high half: calls since the start. One word, so that counting needs no
  // second atomic operation.
  std::atomic<u64> inside_{0};
  std::atomic<i64> last_{0};
  std::atomic<u64> copied_{0};
  std::atomic<bool> timed_{false};  // entered() was called
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  static inline thread_local int depth_ = 0;
};

}  // namespace ckpt::agent
