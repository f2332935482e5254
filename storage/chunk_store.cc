// SPDX-License-Identifier: Apache-2.0
#include "storage/chunk_store.h"

#include <fcntl.h>

#include <algorithm>
#include <numeric>

#include "storage/index.h"

namespace ckpt {
namespace {

// The kernel is told to start writing after this many bytes, so that the last fsync is short.
constexpr u64 kWritebackBytes = 32u << 20;

}  // namespace

ChunkStore::ChunkStore(UniqueFd fd, std::string path, const Uuid &uuid, u64 seed, FileSystem &fs)
    : fd_(std::move(fd)), path_(std::move(path)), uuid_(uuid), seed_(seed), fs_(fs) {}

Result<> ChunkStore::write_header() {
  return write_at(fs_, fd_.get(), encode_chunks_header(uuid_), 0, path_);
}

Result<u32> ChunkStore::add(ByteView raw, ChunkEncoder &encoder) {
  u32 raw_size = static_cast<u32>(raw.size());
  if (all_zero(raw)) return add_zero(raw_size);
  auto [is_new, number] = find_or_claim(chunk_address(raw, seed_), raw_size);
  if (!is_new) return number;
  CKPT_TRY(ChunkEncoder::Encoded encoded, encoder.encode(raw));
  u64 offset = claim_place(number, encoded);
  CKPT_CHECK(write_at(fs_, fd_.get(), encoded.stored, offset, path_));
  start_writeback(offset + encoded.stored.size());
  return number;
}

Result<u32> ChunkStore::add_zero(u32 raw_size) {
  std::lock_guard lock(mutex_);
  ++stats_.chunks, ++stats_.zero_chunks;
  stats_.raw_bytes += raw_size;
  auto [it, is_new] = zero_numbers_.try_emplace(raw_size, static_cast<u32>(entries_.size()));
  if (is_new) {
    std::vector<std::byte> zeros(raw_size);
    entries_.push_back(
        {chunk_address(zeros, seed_), stored_checksum({}), 0, 0, raw_size, Codec::Zero});
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
  }
  return {is_new, it->second};
}

u64 ChunkStore::claim_place(u32 number, const ChunkEncoder::Encoded &encoded) {
  u64 checksum = stored_checksum(encoded.stored);
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

// A hint only, so it is not asked whether it worked. Chunks that other threads are still writing
// below `end` are written back by the fsync.
void ChunkStore::start_writeback(u64 end) {
  u64 from;
  {
    std::lock_guard lock(mutex_);
    if (end < writeback_started_ + kWritebackBytes) return;
    from = std::exchange(writeback_started_, end);
  }
  ::sync_file_range(fd_.get(), static_cast<off_t>(from), static_cast<off_t>(end - from),
                    SYNC_FILE_RANGE_WRITE);
}

Result<> ChunkStore::sync() { return sync_file(fs_, fd_.get(), path_); }

ImageStats ChunkStore::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

ChunkStore::Table ChunkStore::table() const {
  std::vector<u32> order(entries_.size());
  std::iota(order.begin(), order.end(), 0);
  // Zero chunks have no place; at offset 0 they come first.
  std::ranges::sort(order, {}, [&](u32 n) { return std::pair(entries_[n].offset, n); });
  Table out;
  out.renumbered.resize(entries_.size());
  out.chunks.reserve(entries_.size());
  for (u32 n : order) {
    out.renumbered[n] = static_cast<u32>(out.chunks.size());
    out.chunks.push_back(entries_[n]);
  }
  return out;
}

}  // namespace ckpt
