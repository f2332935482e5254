// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/pieces_ahead.h"

#include <algorithm>
#include <atomic>

#include "common/base/cores.h"
#include "common/base/parallel.h"

namespace ckpt::agent {
namespace {

// With more, the kernel's zeroing of pages is limited by the memory and not by the cores.
constexpr unsigned kMostThreads = 16;

unsigned wanted_threads() { return std::min(usable_cores(), kMostThreads); }

}  // namespace

PiecesAhead::PiecesAhead(DirectMemory &memory, PageLocker *locker, u64 most)
    : memory_(memory), locker_(locker), most_(most), pieces_(memory.pieces(), State::Waiting) {
  start_threads();
}

PiecesAhead::~PiecesAhead() {
  {
    std::scoped_lock lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  for (pthread_t thread : threads_) ::pthread_join(thread, nullptr);
  if (locker_ == nullptr) return;
  std::atomic<u64> next = 0;
  run_parallel(wanted_threads(), [&](unsigned) {
    for (u64 i; (i = next++) < pieces_.size();)
      if (pieces_[i] == State::Ready) locker_->unlock_pages(memory_.piece(i));
  });
}

// The threads inherit the signal mask of the agent's thread, which blocks all signals.
void PiecesAhead::start_threads() {
  size_t wanted = std::min<size_t>(wanted_threads(), pieces_.size());
  for (pthread_t thread; threads_.size() < wanted; threads_.push_back(thread))
    if (::pthread_create(&thread, nullptr, PiecesAhead::thread, this) != 0) return;
}

void *PiecesAhead::thread(void *self) {
  static_cast<PiecesAhead *>(self)->loop();
  return nullptr;
}

bool PiecesAhead::may_begin() const {
  u64 limit = reached_ + 1 + most_ / DirectMemory::kPieceBytes;
  return next_ < std::min<u64>(limit, pieces_.size());
}

void PiecesAhead::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || may_begin(); });
    if (closed_) return;
    begin_next(lock);
  }
}

void PiecesAhead::begin_next(std::unique_lock<std::mutex> &lock) {
  u64 piece = next_++;
  lock.unlock();
  Result<> populated = memory_.populate(piece);
  if (populated && locker_ != nullptr) locker_->lock_pages(memory_.piece(piece));
  lock.lock();
  pieces_[piece] = populated ? State::Ready : State::Failed;
  if (!populated) errors_.push_back(populated.error().what);
  changed_.notify_all();
}

void PiecesAhead::reach(u64 piece) {
  std::scoped_lock lock(mutex_);
  if (piece <= reached_) return;
  reached_ = piece;
  changed_.notify_all();
}

Result<> PiecesAhead::wait_for(u64 piece) {
  reach(piece);
  std::unique_lock lock(mutex_);
  while (pieces_[piece] == State::Waiting) {
    if (threads_.empty())
      begin_next(lock);
    else
      changed_.wait(lock);
  }
  if (pieces_[piece] == State::Ready) return {};
  return fail("{}", errors_.front());
}

bool PiecesAhead::ready(u64 piece) {
  std::scoped_lock lock(mutex_);
  return pieces_[piece] != State::Waiting;
}

void populate_first(DirectMemory &memory, u64 bytes) {
  u64 pieces = std::min(memory.pieces(), bytes / DirectMemory::kPieceBytes);
  std::atomic<u64> next = 0;
  run_parallel(wanted_threads(), [&](unsigned) {
    for (u64 i; (i = next++) < pieces;)
      if (!memory.populate(i)) return;
  });
}

}  // namespace ckpt::agent
