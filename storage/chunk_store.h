// SPDX-License-Identifier: Apache-2.0
//
// chunks.ckpt while it is written. Any thread adds chunks; each claims the next place in the file
// under a lock and writes there by itself, so that writing is as parallel as the file system lets
// it be, and there is never a gap.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "storage/chunk_codec.h"
#include "storage/file_system.h"
#include "storage/format.h"

namespace ckpt {

// What an image holds; live while it is written. Bytes and chunks as they were given, but for
// `unique_chunks` and the stored ones, which count what equal chunks share once.
struct ImageStats {
  u64 raw_bytes = 0;
  u64 stored_bytes = 0;  // in chunks.ckpt
  u64 chunks = 0;
  u64 unique_chunks = 0;  // without zero chunks
  u64 zero_chunks = 0;
  u64 raw_chunks = 0;   // unique, stored as they are
  u64 zstd_chunks = 0;  // unique, compressed
};

class ChunkStore {
 public:
  ChunkStore(UniqueFd fd, std::string path, const Uuid &uuid, u64 seed, FileSystem &fs);

  Result<> write_header();
  // Returns the chunk's number; stores it if no equal one is. Thread-safe.
  Result<u32> add(ByteView raw, ChunkEncoder &encoder);
  Result<> sync();
  ImageStats stats() const;

  // The table for the index, in the order of the file, and how add()'s numbers are called in it.
  // This and what follows it: only when no add() is running.
  struct Table {
    std::vector<ChunkEntry> chunks;
    std::vector<u32> renumbered;
  };
  Table table() const;
  u64 file_size() const { return end_; }
  u32 raw_size(u32 number) const { return entries_[number].raw_size; }

 private:
  struct AddressHash {
    size_t operator()(const ChunkAddress &a) const { return static_cast<size_t>(a.low); }
  };
  Result<u32> add_zero(u32 raw_size);
  // Whether the chunk is new, and its number.
  std::pair<bool, u32> find_or_claim(const ChunkAddress &address, u32 raw_size);
  u64 claim_place(u32 number, const ChunkEncoder::Encoded &encoded);
  void start_writeback(u64 end);

  UniqueFd fd_;
  const std::string path_;
  const Uuid uuid_;
  const u64 seed_;
  FileSystem &fs_;
  mutable std::mutex mutex_;
  std::vector<ChunkEntry> entries_;
  std::unordered_map<ChunkAddress, u32, AddressHash> numbers_;
  std::unordered_map<u32, u32> zero_numbers_;  // by size
  u64 end_ = kChunksHeaderBytes;
  u64 writeback_started_ = 0;
  ImageStats stats_;
};

}  // namespace ckpt
