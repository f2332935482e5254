// SPDX-License-Identifier: Apache-2.0
//
// The threads that copy between slots of staging memory and a store, one core of memory copies
// being slower than a device's bus. They live as long as one save or load.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "agent/participant/participant.h"

namespace ckpt::agent {

// One slot's worth.
struct CopyPiece {
  u32 region = 0;  // number and offset are its owner's, who gets them back
  u64 offset = 0;
  Slot slot;
  u32 bytes = 0;
  u64 at = 0;  // in the store
};

// Used by one thread.
class CopyPool {
 public:
  // `work` is called from any of the threads. With none, because none can be started, add() does
  // the work itself.
  using Work = std::function<Result<>(const CopyPiece &)>;
  explicit CopyPool(Work work);
  // What has not begun is dropped.
  ~CopyPool();
  CopyPool(const CopyPool &) = delete;

  void add(CopyPiece piece);
  // Pieces that were added and not taken back yet, and those of them that are done.
  size_t under_way() const { return under_way_; }
  bool any_done();
  // Waits for one, in whatever order they end; fails if its work did. Only while any are under way.
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
  size_t under_way_ = 0;
  std::vector<pthread_t> threads_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_, done_changed_;
  std::deque<CopyPiece> waiting_;
  std::deque<Done> done_;
  bool closed_ = false;
};

}  // namespace ckpt::agent
