// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/copy_pool.h"

#include <algorithm>

#include "agent/transfer/contents_store.h"
#include "common/base/cores.h"

namespace ckpt::agent {

CopyPool::CopyPool(Work work) : work_(std::move(work)) { start_threads(); }

CopyPool::~CopyPool() {
  {
    std::scoped_lock lock(mutex_);
    closed_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  for (pthread_t thread : threads_) ::pthread_join(thread, nullptr);
}

// More threads than files would wait for each other in the kernel. The threads inherit the signal
// mask of the agent's thread, which blocks all signals.
void CopyPool::start_threads() {
  size_t wanted = std::min<size_t>(usable_cores(), ContentsStore::kFiles);
  for (pthread_t thread; threads_.size() < wanted; threads_.push_back(thread))
    if (::pthread_create(&thread, nullptr, CopyPool::thread, this) != 0) return;
}

void *CopyPool::thread(void *self) {
  static_cast<CopyPool *>(self)->loop();
  return nullptr;
}

void CopyPool::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    if (closed_) return;
    CopyPiece piece = waiting_.front();
    waiting_.pop_front();
    carry_out(piece, lock);
  }
}

void CopyPool::carry_out(CopyPiece piece, std::unique_lock<std::mutex> &lock) {
  lock.unlock();
  Result<> outcome = work_(piece);
  lock.lock();
  done_.push_back({piece, std::move(outcome)});
  done_changed_.notify_one();
}

void CopyPool::add(CopyPiece piece) {
  std::unique_lock lock(mutex_);
  in_flight_++;
  if (threads_.empty()) return carry_out(piece, lock);
  waiting_.push_back(piece);
  changed_.notify_one();
}

bool CopyPool::any_done() {
  std::scoped_lock lock(mutex_);
  return !done_.empty();
}

Result<CopyPiece> CopyPool::take() {
  std::unique_lock lock(mutex_);
  done_changed_.wait(lock, [this] { return !done_.empty(); });
  Done done = std::move(done_.front());
  done_.pop_front();
  in_flight_--;
  if (!done.outcome) return Failure(std::move(done.outcome).error());
  return done.piece;
}

}  // namespace ckpt::agent
