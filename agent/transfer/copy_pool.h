// SPDX-License-Identifier: Apache-2.0
//
// The threads that copy between slots of staging memory and a contents store. One core copies
// memory more slowly than the bus of a device does. The threads exist for one save or load.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "agent/participant/participant.h"

namespace ckpt::agent {

// The contents of one slot.
struct CopyPiece {
  u32 region = 0;  // region and offset are not used here, and returned by take()
  u64 offset = 0;
  Slot slot;
  u32 bytes = 0;
  u64 at = 0;  // position in the store
};

// Used by one thread.
class CopyPool {
 public:
  // The threads call `work`. If none can be started, add() calls it.
  using Work = std::function<Result<>(const CopyPiece &)>;
  explicit CopyPool(Work work);
  // Drops the pieces that no thread has begun.
  ~CopyPool();
  CopyPool(const CopyPool &) = delete;

  void add(CopyPiece piece);
  // The number of pieces that were added and not yet taken, and whether one of them is finished.
  size_t in_flight() const { return in_flight_; }
  bool any_done();
  // Waits for a piece, in the order in which they finish; fails if its work failed. Only while any
  // is in flight.
  Result<CopyPiece> take();

 private:
  static void *thread(void *self);
  void loop();
  void start_threads();
  void carry_out(CopyPiece piece, std::unique_lock<std::mutex> &lock);

  struct Done {
    CopyPiece piece;
    Result<> outcome;
  };
  Work work_;
  size_t in_flight_ = 0;
  std::vector<pthread_t> threads_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_, done_changed_;
  std::deque<CopyPiece> waiting_;
  std::deque<Done> done_;
  bool closed_ = false;
};

}  // namespace ckpt::agent
