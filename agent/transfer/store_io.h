// SPDX-License-Identifier: Apache-2.0
//
// Sinks and a source that copy device memory into a contents store and out of it.
#pragma once

#include <string>
#include <vector>

#include "agent/participant/participant.h"
#include "agent/transfer/contents_store.h"
#include "agent/transfer/copy_pool.h"
#include "agent/transfer/pieces_ahead.h"
#include "agent/transfer/sink.h"
#include "agent/transfer/staging.h"

namespace ckpt::agent {

// The places of one participant in a store, for direct copies.
class StorePlaces {
 public:
  StorePlaces(ContentsStore &store, Participant *participant)
      : store_(store), participant_(participant) {}
  // As Sink::place().
  std::span<std::byte> take(u64 bytes);
  // Memory that another process fills, so it is neither allocated nor page-locked here. None: the
  // file is full.
  std::optional<DirectMemory::Place> take_unprepared(u64 bytes);
  // As ContentsStore::placed(), for what take() has returned.
  Result<u64> placed(const std::string &region, u64 offset, std::span<std::byte> bytes);

 private:
  ContentsStore &store_;
  Participant *const participant_;
  std::optional<PiecesAhead> ahead_;  // since the first place
  bool full_ = false;
};

// Writes to `next` and into the store. There are places only for a `reader`, the end of `next` that
// reads them in the store itself.
class CopyingSink : public Sink {
 public:
  CopyingSink(Sink &next, ContentsStore &store, std::string prefix, StoreReader *reader = nullptr,
              Participant *participant = nullptr);
  int staging_fd() const override { return next_.staging_fd(); }
  u32 slot_bytes() const override { return next_.slot_bytes(); }
  u32 slot_count() const override { return next_.slot_count(); }
  Result<u32> region(const std::string &name, u64 bytes) override;
  Result<Slot> acquire() override;
  Result<> put(u32 region, u64 offset, Slot slot, u32 bytes) override;
  ImageId image() const override { return next_.image(); }
  Result<std::span<std::byte>> place(u32 region, u64 offset, u64 bytes) override;
  Result<> placed(u32 region, u64 offset, std::span<std::byte> bytes) override;
  bool takes_zeros() const override { return reader_ != nullptr; }
  Result<> zeros(u32 region, u64 offset, u64 bytes) override;
  std::optional<u64> seed() const override { return next_.seed(); }
  bool knows(const ChunkAddress &address) const override { return next_.knows(address); }
  Result<> same_chunk(u32 region, u64 offset, u32 bytes, const ChunkAddress &address) override;
  void looked(const Looked &looked) override { next_.looked(looked); }
  bool takes_later() const override;
  Result<Later> later(u32 region, u64 offset, u64 bytes) override;
  File later_file() const override;
  Result<> begin_later(int socket, bool owed) override;
  bool takes_owed() const override { return takes_later() && next_.takes_owed(); }
  // After the last put(): waits until all pieces are in the store and passed to `next`.
  Result<> finish();

 private:
  Result<> pass_on();
  Result<std::string> name_of(u32 region) const;

  Sink &next_;
  ContentsStore &store_;
  std::string prefix_;
  StoreReader *const reader_;
  std::vector<std::string> names_;  // by the number that next_ assigned; empty: of another sink
  StorePlaces places_;
  CopyPool pool_;
};

// Writes into the store only.
class StoreSink : public Sink {
 public:
  StoreSink(ContentsStore &store, Staging &staging, std::string prefix,
            Participant *participant = nullptr);
  int staging_fd() const override { return staging_.fd(); }
  u32 slot_bytes() const override { return staging_.slot_bytes(); }
  u32 slot_count() const override { return staging_.slots(); }
  Result<u32> region(const std::string &name, u64 bytes) override;
  Result<Slot> acquire() override;
  Result<> put(u32 region, u64 offset, Slot slot, u32 bytes) override;
  Result<std::span<std::byte>> place(u32 region, u64 offset, u64 bytes) override;
  Result<> placed(u32 region, u64 offset, std::span<std::byte> bytes) override;
  bool takes_zeros() const override { return true; }
  Result<> zeros(u32 region, u64 offset, u64 bytes) override;
  // After the last put(): waits until all pieces are in the store.
  Result<> finish();

 private:
  Result<> take_one();

  ContentsStore &store_;
  Staging &staging_;
  std::string prefix_;
  std::vector<std::string> names_;
  std::vector<u32> free_;
  StorePlaces places_;
  CopyPool pool_;
};

// Reads from the store: first the places, which `participant` page-locks, then what was written, in
// the order in which the threads have read it.
class StoreSource : public Source {
 public:
  StoreSource(const ContentsStore &store, Staging &staging, const std::string &prefix,
              Participant *participant = nullptr);
  int staging_fd() const override { return staging_.fd(); }
  u32 slot_bytes() const override { return staging_.slot_bytes(); }
  u32 slot_count() const override { return staging_.slots(); }
  Result<bool> next(Piece &piece) override;
  Result<> release(Slot slot) override;

 private:
  void read_ahead();
  Result<bool> next_place(Piece &piece);
  u64 end_of_gap();
  void begin_region(size_t number);

  const ContentsStore &store_;
  Staging &staging_;
  size_t prefix_bytes_;
  std::vector<ContentsStore::Region> regions_;
  std::optional<PiecesAhead> ahead_;  // if there are places
  using Places = std::map<u64, DirectMemory::Place>;
  // The next place.
  size_t placed_region_ = 0;
  Places::const_iterator place_;
  u32 region_ = 0;                  // the next one to read
  u64 offset_ = 0;                  // in that region
  Places::const_iterator skipped_;  // its first place that is not before the offset
  std::vector<u32> free_;
  CopyPool pool_;
};

}  // namespace ckpt::agent
