// SPDX-License-Identifier: Apache-2.0
//
// chunks.ckpt while it is written. Any thread adds chunks. Each one claims the next range of the
// file under a lock and writes there without the lock, so that writes run in parallel and leave no
// gaps. Chunks that a parent image has are not written again.
#pragma once

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
  // Seals chunks if `key` is not null. Destination and key must outlive this object.
  ChunkStore(Destination &destination, const Key *key, const Uuid &uuid, u64 seed)
      : destination_(destination), key_(key), uuid_(uuid), seed_(seed) {}

  Result<> write_header();
  // Adds chunks that need not be stored again (entry.file is not 0). Call before the first add().
  void add_known(const std::vector<ChunkEntry> &chunks);
  // Each thread that adds chunks needs one.
  struct Encoders {
    Encoders(int zstd_level, const ImageReader *parent) : chunks(zstd_level), deltas(parent) {}
    ChunkEncoder chunks;
    DeltaMaker deltas;
  };
  // Returns the number of the chunk. Stores it unless an equal one is stored already, as a delta on
  // `similar` if that is smaller. Thread-safe.
  Result<u32> add(ByteView raw, Encoders &encoders, const std::optional<DeltaBase> &similar = {});
  // The number of chunk `index` of add_known(), without its bytes. Thread-safe.
  u32 use_known(size_t index);
  // The number of the chunk with this address, which must be there. Thread-safe.
  Result<u32> use_known(const ChunkAddress &address, u32 raw_size);
  ImageStats stats() const;

  // The functions below must not be called while add() is running.
  // The chunk table for the index, in the order of the file. `renumbered` maps the numbers that
  // add() returned to positions in `chunks`.
  struct Table {
    std::vector<ChunkEntry> chunks;
    std::vector<u32> renumbered;
  };
  Table table() const;
  u64 file_size() const { return end_; }
  u32 raw_size(u32 number) const { return entries_[number].raw_size; }

 private:
  u32 add_zero(u32 raw_size);
  // Whether the chunk is new, and its number.
  std::pair<bool, u32> find_or_claim(const ChunkAddress &address, u32 raw_size);
  void note_use(u32 number);
  Result<EncodedChunk> encode(ByteView raw, Encoders &encoders,
                              const std::optional<DeltaBase> &similar);
  Result<> store(u32 number, const EncodedChunk &chunk);
  u64 claim_place(u32 number, const EncodedChunk &chunk, u64 checksum);
  std::vector<u32> file_order() const;

  Destination &destination_;
  const Key *const key_;
  const Uuid uuid_;
  const u64 seed_;
  mutable std::mutex mutex_;
  std::mutex order_;  // held while claiming and writing if the destination is ordered
  std::vector<ChunkEntry> entries_;
  std::vector<bool> used_;  // whether this image refers to the entry
  std::vector<u32> known_;  // numbers of the chunks of add_known()
  std::unordered_map<ChunkAddress, u32, ChunkAddressHash> numbers_;
  std::unordered_map<u32, u32> zero_numbers_;  // the number of the zero chunk of each size
  u64 end_ = kChunksHeaderBytes;
  ImageStats stats_;
};

}  // namespace ckpt::storage
