// SPDX-License-Identifier: Apache-2.0
#include "softcuda/device/stream.h"

#include <thread>

namespace ckpt::softcuda {

void Point::wait() const {
  if (queue) queue->wait(upto);
}

bool Point::reached() const { return !queue || queue->reached(upto); }

Point WorkQueue::submit(std::function<void()> work, std::vector<Point> after) {
  std::lock_guard lock(mutex_);
  works_.push_back({std::move(work), std::move(after)});
  if (!started_) {
    started_ = true;
    std::thread([self = shared_from_this()] { self->loop(); }).detach();
  }
  changed_.notify_all();
  return {shared_from_this(), ++submitted_};
}

Point WorkQueue::last() {
  std::lock_guard lock(mutex_);
  return {shared_from_this(), submitted_};
}

bool WorkQueue::reached(u64 upto) {
  std::lock_guard lock(mutex_);
  return done_ >= upto;
}

void WorkQueue::wait(u64 upto) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= upto; });
}

void WorkQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void WorkQueue::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closed_ || !works_.empty(); });
    if (works_.empty()) return;
    Work work = std::move(works_.front());
    works_.pop_front();
    lock.unlock();
    for (const Point &p : work.after) p.wait();
    work.run();
    work = Work{};
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace ckpt::softcuda
