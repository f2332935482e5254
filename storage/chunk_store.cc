// SPDX-License-Identifier: Apache-2.0
#include "storage/chunk_store.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "storage/index.h"

namespace ckpt {

Result<> ChunkStore::write_header() { return destination_.write(0, encode_chunks_header(uuid_)); }

void ChunkStore::add_known(const std::vector<ChunkEntry> &chunks) {
  known_.reserve(chunks.size());
  numbers_.reserve(chunks.size());
  for (const ChunkEntry &c : chunks) {
    known_.push_back(static_cast<u32>(entries_.size()));
    entries_.push_back(c);
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

Result<u32> ChunkStore::add(ByteView raw, ChunkEncoder &encoder) {
  u32 raw_size = static_cast<u32>(raw.size());
  if (all_zero(raw)) return add_zero(raw_size);
  ChunkAddress address = chunk_address(raw, seed_);
  auto [is_new, number] = find_or_claim(address, raw_size);
  if (!is_new) return number;
  CKPT_TRY(ChunkEncoder::Encoded encoded, encoder.encode(raw));
  if (key_) encoded = encoder.seal(*key_, address, raw_size, encoded);
  if (destination_.ordered()) {
    CKPT_CHECK(write_ordered(number, encoded));
  } else {
    u64 offset = claim_place(number, encoded, stored_checksum(encoded.stored));
    CKPT_CHECK(destination_.write(offset, encoded.stored));
  }
  return number;
}

Result<> ChunkStore::write_ordered(u32 number, const ChunkEncoder::Encoded &encoded) {
  u64 checksum = stored_checksum(encoded.stored);
  std::lock_guard lock(order_);
  return destination_.write(claim_place(number, encoded, checksum), encoded.stored);
}

u32 ChunkStore::add_zero(u32 raw_size) {
  std::lock_guard lock(mutex_);
  ++stats_.chunks, ++stats_.zero_chunks;
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
}

u64 ChunkStore::claim_place(u32 number, const ChunkEncoder::Encoded &encoded, u64 checksum) {
  std::lock_guard lock(mutex_);
  ChunkEntry &e = entries_[number];
  e.codec = encoded.codec;
  e.stored_checksum = checksum;
  e.stored_size = static_cast<u32>(encoded.stored.size());
  e.offset = end_;
  end_ += e.stored_size;
  stats_.stored_bytes += e.stored_size;
  ++(e.codec == Codec::Raw ? stats_.raw_chunks : stats_.zstd_chunks);
  return e.offset;
}

ImageStats ChunkStore::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

ChunkStore::Table ChunkStore::table() const {
  std::vector<u32> order(entries_.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](u32 n) { return !used_[n]; });
  // Zero chunks have no place; at offset 0 they come first.
  std::ranges::sort(order, {},
                    [&](u32 n) { return std::tuple(entries_[n].file, entries_[n].offset, n); });
  Table out;
  out.renumbered.resize(entries_.size());
  out.chunks.reserve(order.size());
  for (u32 n : order) {
    out.renumbered[n] = static_cast<u32>(out.chunks.size());
    out.chunks.push_back(entries_[n]);
    if (entries_[n].codec == Codec::Zero) out.chunks.back().offset = kChunksHeaderBytes;
  }
  return out;
}

}  // namespace ckpt
