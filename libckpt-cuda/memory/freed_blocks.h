// SPDX-License-Identifier: Apache-2.0
//
// The blocks of a pool (pools.h) that have no allocation. Each has an event, recorded in the stream
// in which it was freed: when it has happened, no work uses the block any more. Not thread-safe.
#pragma once

#include <list>
#include <vector>

#include "libckpt-cuda/memory/block.h"

namespace ckpt::cuda {

// Where an allocation or a free stands in order.
struct StreamPlace {
  CUstream stream = nullptr;  // CU_STREAM_PER_THREAD for the per-thread default stream
  CUcontext context = nullptr;
  bool operator==(const StreamPlace &) const = default;
};

class FreedBlocks {
 public:
  // `place` null: all work that uses the block has finished.
  CUresult add(const Block &block, const StreamPlace *place);

  // Takes out the smallest block that suffices and whose event has happened. `any_stream` false:
  // only one that was freed in this stream.
  bool take_ready(u64 bytes, const StreamPlace &place, bool any_stream, Block &out);
  // Takes out a block that was freed in this stream, or in another one, and makes the work that
  // follows in `place` wait for its event.
  bool take_waiting(u64 bytes, const StreamPlace &place, bool same_stream, Block &out);
  // Takes out blocks whose event has happened, the oldest first, where `wanted(bytes)` says so, and
  // calls `taken(block)`.
  template <class Wanted, class Taken>
  void take_out(Wanted wanted, Taken taken) {
    for (auto it = blocks_.begin(); it != blocks_.end();) {
      auto next = std::next(it);
      if (wanted(it->block.bytes) && has_happened(*it)) {
        taken(it->block);
        blocks_.erase(it);
      }
      it = next;
    }
  }
  // After the devices have become idle: takes out those without memory.
  void take_out_unmapped(std::vector<Block> &out);
  std::vector<Block *> all();
  // Its work has ended, and its events are gone.
  void context_destroyed(CUcontext context);
  CUresult set_access(std::span<const CUmemAccessDesc> access);
  u64 bytes() const;
  // Of blocks whose event has happened.
  u64 unused_bytes();

 private:
  struct Freed {
    Block block;
    StreamPlace place;
    CUevent event = nullptr;  // null: it has happened
  };
  static bool has_happened(Freed &f);
  static void destroy_event(Freed &f);

  std::list<Freed> blocks_;  // the oldest first
};

}  // namespace ckpt::cuda
