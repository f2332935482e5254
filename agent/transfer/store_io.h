// SPDX-License-Identifier: Apache-2.0
//
// Device memory into a store and out of it, as a participant sees it: a sink and a source.
#pragma once

#include <string>
#include <vector>

#include "agent/participant/participant.h"
#include "agent/transfer/contents_store.h"
#include "agent/transfer/copy_pool.h"
#include "agent/transfer/staging.h"

namespace ckpt::agent {

// Saves go on to `next` and into the store.
class CopyingSink : public Sink {
 public:
  CopyingSink(Sink &next, ContentsStore &store, std::string prefix);
  int staging_fd() const override { return next_.staging_fd(); }
  u32 slot_bytes() const override { return next_.slot_bytes(); }
  u32 slot_count() const override { return next_.slot_count(); }
  Result<u32> region(const std::string &name, u64 bytes) override;
  Result<Slot> acquire() override;
  Result<> put(u32 region, u64 offset, Slot slot, u32 bytes) override;
  ImageId image() const override { return next_.image(); }
  // Behind the last put(): until all of it is in the store, and with `next`.
  Result<> finish();

 private:
  Result<> pass_on();

  Sink &next_;
  ContentsStore &store_;
  std::string prefix_;
  std::vector<std::string> names_;  // by the number that next_ gave; empty: not one of ours
  CopyPool crew_;
};

// Saves go into the store alone.
class StoreSink : public Sink {
 public:
  StoreSink(ContentsStore &store, Staging &staging, std::string prefix);
  int staging_fd() const override { return staging_.fd(); }
  u32 slot_bytes() const override { return staging_.slot_bytes(); }
  u32 slot_count() const override { return staging_.slots(); }
  Result<u32> region(const std::string &name, u64 bytes) override;
  Result<Slot> acquire() override;
  Result<> put(u32 region, u64 offset, Slot slot, u32 bytes) override;
  // Behind the last put(): until all of it is in the store.
  Result<> finish();

 private:
  Result<> take_one();

  ContentsStore &store_;
  Staging &staging_;
  std::string prefix_;
  std::vector<std::string> names_;
  std::vector<u32> free_;
  CopyPool crew_;
};

// Loads come out of the store, pieces in whatever order they are read.
class StoreSource : public Source {
 public:
  StoreSource(const ContentsStore &store, Staging &staging, const std::string &prefix);
  int staging_fd() const override { return staging_.fd(); }
  u32 slot_bytes() const override { return staging_.slot_bytes(); }
  u32 slot_count() const override { return staging_.slots(); }
  Result<bool> next(Piece &piece) override;
  Result<> release(Slot slot) override;

 private:
  void read_ahead();

  Staging &staging_;
  size_t prefix_bytes_;
  std::vector<ContentsStore::Region> regions_;
  u32 at_ = 0;      // region
  u64 offset_ = 0;  // in it
  std::vector<u32> free_;
  CopyPool crew_;
};

}  // namespace ckpt::agent
