// SPDX-License-Identifier: Apache-2.0
//
// One stream of an image while it is written: which of its chunks are there, and, of one that is
// appended to, the bytes that are in none yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "storage/chunk/content_cut.h"
#include "storage/write/chunk_store.h"
#include "storage/write/image_writer.h"
#include "storage/write/increment_cutter.h"
#include "storage/write/stream_tail.h"

namespace ckpt::storage {

struct WrittenStream {
  using Cut = ImageWriter::Cut;
  enum class Mode { Empty, Append, Put, Reused, Closed };
  // Values of a chunk number that no chunk has.
  static constexpr u32 kHole = 0xffffffff, kPending = 0xfffffffe;

  // The writer's lock is held over these.
  Result<> set_mode(Mode next);
  // Takes the chunks from `first` on that `bytes` at `offset` fill, so that nobody fills them
  // twice.
  Result<> claim(u64 first, u64 offset, u64 bytes);
  // After all was stored: no chunk is missing.
  Result<> check_filled(const ChunkStore &store) const;

  // Of the appending thread alone: the next chunk of the tail, its size 0 if more bytes are needed
  // to tell. `is_end`: no more will come.
  Piece next_piece(bool is_end);

  std::string name;
  Cut cut = Cut::Fixed;
  Mode mode = Mode::Empty;
  u64 size = 0;
  std::vector<u32> chunks;
  const StreamEntry *theirs = nullptr;  // the parent's of the same name, which may be like it
  // What follows is used by the appending thread alone.
  StreamTail tail;
  u64 tail_at = 0;  // in the stream
  ContentCut cutter;
  std::optional<IncrementCutter> follower;  // in place of the cutter
};

}  // namespace ckpt::storage
