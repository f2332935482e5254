// SPDX-License-Identifier: Apache-2.0
#include "softcuda/device/stream.h"

#include <time.h>

#include <algorithm>
#include <thread>

#include "common/base/clock.h"

namespace ckpt::softcuda {

i64 device_now() { return monotonic_ns(); }

i64 &model_time() {
  static thread_local i64 time = 0;
  return time;
}

void Point::wait() const {
  if (queue) queue->wait(number);
}

bool Point::reached() const { return !queue || queue->reached(number); }

Point WorkQueue::submit(std::function<void()> work, std::vector<Point> after) {
  std::lock_guard lock(mutex_);
  last_end_ = std::make_shared<i64>(0);
  pending_.push_back({std::move(work), std::move(after), device_now(), last_end_});
  if (!started_) {
    started_ = true;
    std::thread([self = shared_from_this()] { self->loop(); }).detach();
  }
  changed_.notify_all();
  return {shared_from_this(), ++submitted_, last_end_};
}

Point WorkQueue::last() {
  std::lock_guard lock(mutex_);
  return {shared_from_this(), submitted_, last_end_};
}

bool WorkQueue::reached(u64 number) {
  std::lock_guard lock(mutex_);
  return done_ >= number;
}

void WorkQueue::wait(u64 number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= number; });
}

void WorkQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

// Work cannot begin in the future. After a restore on another machine, saved times may be ahead of
// this machine's clock.
void WorkQueue::run(Work &work) {
  i64 ready = std::max(work.submitted, previous_end_);
  for (const Point &p : work.after) {
    p.wait();
    if (p.end) ready = std::max(ready, *p.end);
  }
  model_time() = std::min(ready, device_now());
  work.run();
  *work.end = previous_end_ = model_time();
}

void WorkQueue::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closed_ || !pending_.empty(); });
    if (pending_.empty()) return;
    Work work = std::move(pending_.front());
    pending_.pop_front();
    lock.unlock();
    run(work);
    work = Work{};
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace ckpt::softcuda
