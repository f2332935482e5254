// SPDX-License-Identifier: Apache-2.0
#include "storage/write/workers.h"

#include <sys/resource.h>

#include "common/base/shortage.h"

namespace ckpt::storage {
namespace {

constexpr int kYieldingNice = 10;

}  // namespace

Result<std::unique_ptr<Workers>> Workers::start(unsigned threads, size_t max_weight,
                                                bool yielding) {
  std::unique_ptr<Workers> out(new Workers(max_weight, yielding));
  out->threads_.reserve(threads);
  for (unsigned i = 0; i < threads; ++i) {
    Result<std::thread> thread = start_thread([w = out.get(), i] { w->run(i); });
    if (!thread && i == 0) return Failure(std::move(thread).error());
    if (!thread) break;
    out->threads_.push_back(std::move(*thread));
  }
  return out;
}

Workers::~Workers() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread &t : threads_) t.join();
}

void Workers::submit(size_t weight, Task task) {
  std::unique_lock lock(mutex_);
  auto has_room = [&] { return weight_ == 0 || weight_ + weight <= max_weight_; };
  if (!has_room()) {
    ++blocked_;
    work_.notify_all();
    room_.wait(lock, has_room);
    --blocked_;
  }
  weight_ += weight;
  waiting_.push_back({weight, std::move(task)});
  if (may_work()) work_.notify_one();
}

void Workers::drain() {
  std::unique_lock lock(mutex_);
  draining_ = true;
  work_.notify_all();
  room_.wait(lock, [&] { return weight_ == 0; });
  draining_ = false;
}

bool Workers::may_work() const {
  if (waiting_.empty()) return false;
  return !yielding_ || draining_ || stop_ || blocked_ > 0 || weight_ > max_weight_ / 2;
}

void Workers::run(unsigned worker) {
  // On Linux this changes only the calling thread (setpriority(2), "C library/kernel differences").
  if (yielding_) ::setpriority(PRIO_PROCESS, 0, kYieldingNice);
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return stop_ || may_work(); });
    if (waiting_.empty()) return;
    Entry entry = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    entry.task(worker);
    entry.task = nullptr;  // destroy its captures before drain() can return
    lock.lock();
    weight_ -= entry.weight;
    room_.notify_all();
  }
}

}  // namespace ckpt::storage
