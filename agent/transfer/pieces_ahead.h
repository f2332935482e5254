// SPDX-License-Identifier: Apache-2.0
//
// Threads that prepare the pieces of a direct memory for a device, ahead of its copies: they
// allocate the pages of a piece and page-lock it. They run at most a given number of bytes ahead,
// which limits the host memory that is allocated early. Exists for one save or load.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "agent/participant/participant.h"
#include "agent/protocol.h"
#include "agent/transfer/direct_memory.h"

namespace ckpt::agent {

// Used by one thread.
class PiecesAhead {
 public:
  // `locker` page-locks the pieces; null: none does. `most`: the bytes that may be ready
  // beyond the piece that was waited for.
  PiecesAhead(DirectMemory &memory, PageLocker *locker, u64 most = protocol::kAheadBytes);
  // Unlocks the pieces.
  ~PiecesAhead();
  PiecesAhead(const PiecesAhead &) = delete;

  // Returns when the piece is ready; fails if there is no memory for it.
  Result<> wait_for(u64 piece);
  // The pieces up to this one may be ready from now on, too.
  void reach(u64 piece);
  // Whether wait_for() would wait.
  bool ready(u64 piece);

 private:
  enum class State : u8 { Waiting, Ready, Failed };
  static void *thread(void *self);
  void start_threads();
  void loop();
  bool may_begin() const;
  void begin_next(std::unique_lock<std::mutex> &lock);

  DirectMemory &memory_;
  PageLocker *const locker_;
  const u64 most_;
  std::vector<pthread_t> threads_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<State> pieces_;
  std::vector<std::string> errors_;
  u64 next_ = 0;     // the next piece to begin
  u64 reached_ = 0;  // the largest that was waited for
  bool closed_ = false;
};

// Allocates the pages of the first `bytes` bytes, on all cores. A shortage of memory is not an
// error here.
void populate_first(DirectMemory &memory, u64 bytes);

}  // namespace ckpt::agent
