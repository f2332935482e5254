// SPDX-License-Identifier: Apache-2.0
//
// Sinks and a source that copy device memory into a contents store and out of it.
#pragma once

#include <string>
#include <vector>

#include "agent/participant/participant.h"
#include "agent/transfer/contents_store.h"
#include "agent/transfer/copy_pool.h"
#include "agent/transfer/staging.h"

namespace ckpt::agent {

// Writes to `next` and into the store.
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
  // After the last put(): waits until all pieces are in the store and passed to `next`.
  Result<> finish();

 private:
  Result<> pass_on();

  Sink &next_;
  ContentsStore &store_;
  std::string prefix_;
  std::vector<std::string> names_;  // by the number that next_ assigned; empty: of another sink
  CopyPool pool_;
};

// Writes into the store only.
class StoreSink : public Sink {
 public:
  StoreSink(ContentsStore &store, Staging &staging, std::string prefix);
  int staging_fd() const override { return staging_.fd(); }
  u32 slot_bytes() const override { return staging_.slot_bytes(); }
  u32 slot_count() const override { return staging_.slots(); }
  Result<u32> region(const std::string &name, u64 bytes) override;
  Result<Slot> acquire() override;
  Result<> put(u32 region, u64 offset, Slot slot, u32 bytes) override;
  // After the last put(): waits until all pieces are in the store.
  Result<> finish();

 private:
  Result<> take_one();

  ContentsStore &store_;
  Staging &staging_;
  std::string prefix_;
  std::vector<std::string> names_;
  std::vector<u32> free_;
  CopyPool pool_;
};

// Reads from the store. Pieces come in the order in which the threads have read them.
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
  u32 region_ = 0;  // the next one to read
  u64 offset_ = 0;  // in that region
  std::vector<u32> free_;
  CopyPool pool_;
};

}  // namespace ckpt::agent
