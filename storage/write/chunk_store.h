// SPDX-License-Identifier: Apache-2.0
//
// chunks.ckpt while it is written. Any thread adds chunks; each claims the next place in the file
// under a lock and writes there by itself, so that writing is as parallel as the file system lets
// it be, and there is never a gap. What a parent image holds is not written again.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "storage/format/format.h"
#include "storage/format/image_stats.h"
#include "storage/format/key.h"
#include "storage/io/destination.h"
#include "storage/write/delta_maker.h"

namespace ckpt::storage {

class ChunkStore {
 public:
  // `key`: chunks are sealed. Both must outlive this.
  ChunkStore(Destination &destination, const Key *key, const Uuid &uuid, u64 seed)
      : destination_(destination), key_(key), uuid_(uuid), seed_(seed) {}

  Result<> write_header();
  // Before the first add(): chunks that need not be stored again (entry.file is not 0).
  void add_known(const std::vector<ChunkEntry> &chunks);
  // What a thread that adds chunks keeps for it.
  struct Tools {
    Tools(int zstd_level, const ImageReader *parent) : encoder(zstd_level), deltas(parent) {}
    ChunkEncoder encoder;
    DeltaMaker deltas;
  };
  // Returns the chunk's number; stores it if no equal one is, as a delta on `like` if it pays.
  // Thread-safe.
  Result<u32> add(ByteView raw, Tools &tools, const std::optional<DeltaBase> &like = {});
  // The number of a chunk that add_known() brought, without its bytes. Thread-safe.
  u32 use_known(size_t index);
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
  u32 add_zero(u32 raw_size);
  // Whether the chunk is new, and its number.
  std::pair<bool, u32> find_or_claim(const ChunkAddress &address, u32 raw_size);
  void note_use(u32 number);
  Result<DeltaMaker::Made> encode(ByteView raw, Tools &tools, const std::optional<DeltaBase> &like);
  Result<> store(u32 number, const DeltaMaker::Made &made);
  u64 claim_place(u32 number, const DeltaMaker::Made &made, u64 checksum);

  Destination &destination_;
  const Key *const key_;
  const Uuid uuid_;
  const u64 seed_;
  mutable std::mutex mutex_;
  std::mutex order_;  // held over claiming and writing where the destination is ordered
  std::vector<ChunkEntry> entries_;
  std::vector<bool> used_;  // of a parent's entries, those that this image refers to
  std::vector<u32> known_;  // numbers of what add_known() brought
  std::unordered_map<ChunkAddress, u32, AddressHash> numbers_;
  std::unordered_map<u32, u32> zero_numbers_;  // by size
  u64 end_ = kChunksHeaderBytes;
  ImageStats stats_;
};

}  // namespace ckpt::storage
