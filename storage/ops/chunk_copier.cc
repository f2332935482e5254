// SPDX-License-Identifier: Apache-2.0
#include "storage/ops/chunk_copier.h"

#include <algorithm>

#include "storage/format/index.h"
#include "storage/write/parent_chunks.h"

namespace ckpt::storage {

ChunkCopier::ChunkCopier(const ImageReader &from, std::vector<Uuid> dropped)
    : from_(from), dropped_(std::move(dropped)), out_(from.index()) {
  out_.chunks.clear();
}

void ChunkCopier::may_use(const ImageReader &other, const std::string &name) {
  u32 file = file_of(other, name);
  for (ChunkEntry c : other.index().chunks) {
    // A delta refers to its base by a number of its own image's table. It is small, so it is
    // copied.
    if (c.file != 0 || c.codec == Codec::Zero || c.codec == Codec::Delta) continue;
    c.file = file;
    elsewhere_.try_emplace(c.address, c);
  }
}

Result<> ChunkCopier::copy(Destination &to, const Key *key) {
  place_chunks();
  CKPT_CHECK(to.write(0, encode_chunks_header(out_.uuid)));
  CKPT_CHECK(copy_chunks(to));
  drop_unused_parents(out_);
  CKPT_TRY(Bytes index, encode_index(out_, key));
  return to.finish(index);
}

// The number of the other image's own file among our parents, of which it becomes one.
u32 ChunkCopier::file_of(const ImageReader &other, const std::string &name) {
  auto it = std::ranges::find(out_.parents, other.index().uuid, &ParentEntry::uuid);
  if (it == out_.parents.end()) it = out_.parents.insert(it, {other.index().uuid, 0, name});
  it->size = other.index().chunks_file_size;
  return static_cast<u32>(it - out_.parents.begin()) + 1;
}

bool ChunkCopier::is_dropped(u32 file) const {
  if (file == 0) return false;
  const Uuid &uuid = from_.index().parents[file - 1].uuid;
  return std::ranges::find(dropped_, uuid) != dropped_.end();
}

// The entry of a chunk in the new image, apart from the offset of an own chunk.
ChunkEntry ChunkCopier::placed(const ChunkEntry &old) const {
  if (!is_dropped(old.file)) return old;
  auto it = elsewhere_.find(old.address);
  if (it != elsewhere_.end()) return it->second;
  ChunkEntry copied = old;
  copied.file = 0;
  return copied;
}

void ChunkCopier::place_chunks() {
  const std::vector<ChunkEntry> &old = from_.index().chunks;
  std::vector<ChunkEntry> entries;
  std::vector<u32> own, copied, foreign;
  for (u32 i = 0; i < old.size(); ++i) {
    entries.push_back(placed(old[i]));
    if (old[i].file == 0)
      own.push_back(i);
    else if (entries[i].file == 0)
      copied.push_back(i);
    else
      foreign.push_back(i);
  }
  own_ = own;
  own_.insert(own_.end(), copied.begin(), copied.end());
  std::vector<u32> order = own_;
  order.insert(order.end(), foreign.begin(), foreign.end());
  fill_tables(order, entries);
}

void ChunkCopier::fill_tables(const std::vector<u32> &order,
                              const std::vector<ChunkEntry> &placed) {
  std::vector<u32> renumbered(order.size());
  u64 end = kChunksHeaderBytes;
  for (u32 i : order) {
    renumbered[i] = static_cast<u32>(out_.chunks.size());
    out_.chunks.push_back(placed[i]);
    if (placed[i].file != 0) continue;
    out_.chunks.back().offset = end;
    end += placed[i].stored_size;
  }
  out_.chunks_file_size = end;
  for (ChunkEntry &c : out_.chunks)
    if (c.codec == Codec::Delta) c.base = renumbered[c.base];
  for (StreamEntry &s : out_.streams)
    for (u32 &c : s.chunks) c = renumbered[c];
}

Result<> ChunkCopier::copy_chunks(Destination &to) {
  Bytes stored;
  for (size_t i = 0; i < own_.size(); ++i) {
    stored.resize(out_.chunks[i].stored_size);
    CKPT_CHECK(from_.read_stored(own_[i], stored));
    CKPT_CHECK(to.write(out_.chunks[i].offset, stored));
  }
  return {};
}

}  // namespace ckpt::storage
