// SPDX-License-Identifier: Apache-2.0
//
// One stream of an image while it is written: its chunks so far, and for append() the bytes that
// are not in a chunk yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "storage/chunk/content_cut.h"
#include "storage/write/chunk_store.h"
#include "storage/write/increment_cutter.h"
#include "storage/write/stream_tail.h"

namespace ckpt::storage {

struct WrittenStream {
  enum class Mode { Empty, Append, Put, Reused, Closed };
  // Values in `chunks` that are not the number of a chunk.
  static constexpr u32 kHole = 0xffffffff, kPending = 0xfffffffe;

  // Both are called with the writer's lock.
  Result<> set_mode(Mode next);
  // Reserves the chunks from `first` that `bytes` at `offset` fill. Fails if one is filled already,
  // or if that would make `places`, the number of chunks of all streams that are filled by put(),
  // more than an index can list: an agent may send any offset first.
  Result<> claim(u64 first, u64 offset, u64 bytes, u64 &places);
  // Fails if a chunk is missing. Call after everything is stored.
  Result<> check_filled(const ChunkStore &store) const;

  // The next chunk of the tail; its size is 0 if more bytes are needed to decide. `is_end`: there
  // are no more bytes. Only for the appending thread.
  Piece next_piece(bool is_end);

  std::string name;
  Cut cut = Cut::Fixed;
  Mode mode = Mode::Empty;
  u64 size = 0;
  std::vector<u32> chunks;
  const StreamEntry *parent_stream = nullptr;  // of the same name; may be similar
  // Only for the appending thread:
  StreamTail tail;
  u64 tail_at = 0;  // the tail's offset in the stream
  ContentCut content_cut;
  std::optional<IncrementCutter> increment_cutter;  // instead of content_cut
};

}  // namespace ckpt::storage
