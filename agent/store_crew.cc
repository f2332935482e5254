// SPDX-License-Identifier: Apache-2.0
#include "agent/store_crew.h"

#include <algorithm>

#include "agent/store.h"
#include "common/cores.h"

namespace ckpt {

StoreCrew::StoreCrew(Work work) : work_(std::move(work)) { start_threads(); }

StoreCrew::~StoreCrew() {
  {
    std::scoped_lock lock(mutex_);
    closed_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  for (pthread_t thread : threads_) ::pthread_join(thread, nullptr);
}

// More than there are files would wait for each other. The agent's thread has all signals blocked;
// so have its children.
void StoreCrew::start_threads() {
  size_t most = std::min<size_t>(usable_cores(), Store::kFiles);
  for (pthread_t thread; threads_.size() < most; threads_.push_back(thread))
    if (::pthread_create(&thread, nullptr, StoreCrew::thread, this) != 0) return;
}

void *StoreCrew::thread(void *self) {
  static_cast<StoreCrew *>(self)->loop();
  return nullptr;
}

void StoreCrew::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    if (closed_) return;
    StorePiece piece = waiting_.front();
    waiting_.pop_front();
    carry_out(piece, lock);
  }
}

void StoreCrew::carry_out(StorePiece piece, std::unique_lock<std::mutex> &lock) {
  lock.unlock();
  Result<> outcome = work_(piece);
  lock.lock();
  done_.push_back({piece, std::move(outcome)});
  done_changed_.notify_one();
}

void StoreCrew::add(StorePiece piece) {
  std::unique_lock lock(mutex_);
  under_way_++;
  if (threads_.empty()) return carry_out(piece, lock);
  waiting_.push_back(piece);
  changed_.notify_one();
}

bool StoreCrew::any_done() {
  std::scoped_lock lock(mutex_);
  return !done_.empty();
}

Result<StorePiece> StoreCrew::take() {
  std::unique_lock lock(mutex_);
  done_changed_.wait(lock, [this] { return !done_.empty(); });
  Done done = std::move(done_.front());
  done_.pop_front();
  under_way_--;
  if (!done.outcome) return Failure(std::move(done.outcome).error());
  return done.piece;
}

}  // namespace ckpt
