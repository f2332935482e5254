// SPDX-License-Identifier: Apache-2.0
#include "storage/write/chunk_store.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "storage/format/index.h"

namespace ckpt::storage {

Result<> ChunkStore::write_header() { return destination_.write(0, encode_chunks_header(uuid_)); }

void ChunkStore::add_known(const std::vector<ChunkEntry> &chunks) {
  known_.reserve(chunks.size());
  numbers_.reserve(chunks.size());
  for (const ChunkEntry &c : chunks) {
    known_.push_back(static_cast<u32>(entries_.size()));
    entries_.push_back(c);  // c.base remains valid, because these are the first entries
    used_.push_back(false);
    if (c.codec != Codec::Zero) numbers_.try_emplace(c.address, known_.back());
  }
}

u32 ChunkStore::use_known(size_t index) {
  std::unique_lock lock(mutex_);
  u32 number = known_[index];
  if (entries_[number].codec == Codec::Zero) {
    u32 raw_size = entries_[number].raw_size;
    lock.unlock();
    return add_zero(raw_size);
  }
  ++stats_.chunks;
  stats_.raw_bytes += entries_[number].raw_size;
  note_use(number);
  return number;
}

Result<u32> ChunkStore::use_known(const ChunkAddress &address, u32 raw_size) {
  std::lock_guard lock(mutex_);
  auto found = numbers_.find(address);
  if (found == numbers_.end() || entries_[found->second].raw_size != raw_size)
    return fail("the parent image has no such chunk of {} bytes", raw_size);
  ++stats_.chunks;
  stats_.raw_bytes += raw_size;
  note_use(found->second);
  return found->second;
}

Result<u32> ChunkStore::add(ByteView raw, Encoders &encoders,
                            const std::optional<DeltaBase> &similar) {
  u32 raw_size = static_cast<u32>(raw.size());
  if (all_zero(raw)) return add_zero(raw_size);
  ChunkAddress address = chunk_address(raw, seed_);
  auto [is_new, number] = find_or_claim(address, raw_size);
  if (!is_new) return number;
  CKPT_TRY(EncodedChunk chunk, encode(raw, encoders, similar));
  if (key_) chunk.encoded = encoders.chunks.seal(*key_, address, raw_size, chunk.encoded);
  CKPT_CHECK(store(number, chunk));
  return number;
}

Result<EncodedChunk> ChunkStore::encode(ByteView raw, Encoders &encoders,
                                        const std::optional<DeltaBase> &similar) {
  if (similar)
    if (auto delta = encoders.deltas.make(raw, *similar, encoders.chunks)) return *delta;
  CKPT_TRY(ChunkEncoder::Encoded encoded, encoders.chunks.encode(raw));
  return EncodedChunk{encoded, {}};
}

Result<> ChunkStore::store(u32 number, const EncodedChunk &chunk) {
  u64 checksum = stored_checksum(chunk.encoded.stored);
  std::unique_lock lock(order_, std::defer_lock);
  if (destination_.ordered()) lock.lock();
  return destination_.write(claim_place(number, chunk, checksum), chunk.encoded.stored);
}

u32 ChunkStore::add_zero(u32 raw_size) {
  std::lock_guard lock(mutex_);
  ++stats_.chunks;
  ++stats_.zero_chunks;
  stats_.raw_bytes += raw_size;
  auto [it, is_new] = zero_numbers_.try_emplace(raw_size, static_cast<u32>(entries_.size()));
  if (is_new) {
    std::vector<std::byte> zeros(raw_size);
    entries_.push_back(
        {chunk_address(zeros, seed_), stored_checksum({}), 0, 0, raw_size, Codec::Zero});
    used_.push_back(true);
  }
  return it->second;
}

std::pair<bool, u32> ChunkStore::find_or_claim(const ChunkAddress &address, u32 raw_size) {
  std::lock_guard lock(mutex_);
  ++stats_.chunks;
  stats_.raw_bytes += raw_size;
  auto [it, is_new] = numbers_.try_emplace(address, static_cast<u32>(entries_.size()));
  if (is_new) {
    ++stats_.unique_chunks;
    entries_.push_back({.address = address, .raw_size = raw_size});
    used_.push_back(true);
  } else {
    note_use(it->second);
  }
  return {is_new, it->second};
}

void ChunkStore::note_use(u32 number) {
  if (used_[number]) return;
  used_[number] = true;
  ++stats_.parent_chunks;
  stats_.parent_bytes += entries_[number].stored_size;
  if (entries_[number].codec == Codec::Delta) note_use(entries_[number].base);
}

u64 ChunkStore::claim_place(u32 number, const EncodedChunk &chunk, u64 checksum) {
  const ChunkEncoder::Encoded &encoded = chunk.encoded;
  std::lock_guard lock(mutex_);
  ChunkEntry &e = entries_[number];
  e.codec = encoded.codec;
  if (e.codec == Codec::Delta) {
    e.base = known_[chunk.base.chunk];
    e.base_offset = chunk.base.offset;
    note_use(e.base);
  }
  e.stored_checksum = checksum;
  e.stored_size = static_cast<u32>(encoded.stored.size());
  e.offset = end_;
  end_ += e.stored_size;
  stats_.stored_bytes += e.stored_size;
  if (e.codec == Codec::Raw) ++stats_.raw_chunks;
  if (e.codec == Codec::Zstd) ++stats_.zstd_chunks;
  if (e.codec == Codec::Delta) ++stats_.delta_chunks;
  return e.offset;
}

ImageStats ChunkStore::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

// The numbers of the used entries, by file and offset. Zero chunks have offset 0 and come first.
std::vector<u32> ChunkStore::file_order() const {
  std::vector<u32> order(entries_.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](u32 n) { return !used_[n]; });
  std::ranges::sort(order, {},
                    [&](u32 n) { return std::tuple(entries_[n].file, entries_[n].offset, n); });
  return order;
}

ChunkStore::Table ChunkStore::table() const {
  std::vector<u32> order = file_order();
  Table out;
  out.renumbered.resize(entries_.size());
  out.chunks.reserve(order.size());
  for (u32 n : order) {
    out.renumbered[n] = static_cast<u32>(out.chunks.size());
    out.chunks.push_back(entries_[n]);
    if (entries_[n].codec == Codec::Zero) out.chunks.back().offset = kChunksHeaderBytes;
  }
  for (ChunkEntry &c : out.chunks)
    if (c.codec == Codec::Delta) c.base = out.renumbered[c.base];
  return out;
}

}  // namespace ckpt::storage
