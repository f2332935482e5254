// SPDX-License-Identifier: Apache-2.0
//
// Save: the participants fill slots of staging memory and the tool empties them.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "agent/transfer/parent_chunks.h"
#include "agent/transfer/staging.h"

namespace ckpt::agent {

// The end of a save that reads contents in a file of this process.
class StoreReader {
 public:
  virtual ~StoreReader() = default;
  // `bytes` bytes of `region` at `offset` are in `file` at `at`. The file is the same in all calls.
  virtual Result<> stored(u32 region, u64 offset, u64 bytes, u64 at, Sink::File file) = 0;
  virtual Result<> zeros(u32 region, u64 offset, u64 bytes) = 0;
  // Tells the tool of the file, unless it knows it.
  virtual Result<> send_file(Sink::File file) = 0;
  // They will be there later.
  virtual Result<> due(u32 region, u64 offset, u64 bytes, u64 at) = 0;
};

class StagingSink : public Sink, public StoreReader {
 public:
  struct Lineage {
    ImageId image{}, parent{};
    bool reads_store = false;  // the tool can read a StoreReader::File
    std::optional<u64> seed;   // of the image's addresses; none: the tool does not ask for Surveyed
    std::shared_ptr<ParentChunks> chunks;  // null: all chunks are to be sent
    bool has_owner = false;   // contents may come later, from the owner of device memory
    bool takes_owed = false;  // contents may come later, while the program runs on
  };
  StagingSink(Channel &tool, Staging &staging, const Lineage &lineage);

  // The participant of the regions that follow; their names get its prefix.
  void set_participant(const std::string &name) { prefix_ = name + "/"; }
  // There is no other participant, which might have contents in a file as well.
  void set_alone() { alone_ = true; }
  u64 bytes() const { return bytes_; }

  int staging_fd() const override { return staging_.fd(); }
  u32 slot_bytes() const override { return staging_.slot_bytes(); }
  u32 slot_count() const override { return staging_.slots(); }
  Result<u32> region(const std::string &name, u64 bytes) override;
  Result<Slot> acquire() override;
  Result<> put(u32 region, u64 offset, Slot slot, u32 bytes) override;
  // The tool learns of zeros by the same message as of contents in the store.
  bool takes_zeros() const override { return lineage_.reads_store; }
  std::optional<u64> seed() const override;
  bool knows(const ChunkAddress &address) const override;
  Result<> same_chunk(u32 region, u64 offset, u32 bytes, const ChunkAddress &address) override;
  void looked(const Looked &looked) override;
  ImageId image() const override { return lineage_.image; }
  ImageId parent() const override { return lineage_.parent; }
  Result<> same(const std::string &name, u64 bytes) override;
  const std::shared_ptr<ParentChunks> &chunks() const { return lineage_.chunks; }
  // Null: the tool cannot.
  StoreReader *reader() { return lineage_.reads_store ? this : nullptr; }
  Result<> stored(u32 region, u64 offset, u64 bytes, u64 at, File file) override;
  Result<> zeros(u32 region, u64 offset, u64 bytes) override;
  Result<> due(u32 region, u64 offset, u64 bytes, u64 at) override;
  bool takes_later() const override { return lineage_.reads_store && lineage_.has_owner; }
  Result<> send_file(File file) override;
  Result<> begin_later(int socket) override;
  bool takes_owed() const override { return alone_ && lineage_.reads_store && lineage_.takes_owed; }
  Result<> begin_owed(File file, int socket) override;
  Result<> owed(u32 region, u64 offset, u64 bytes, u64 at) override {
    return due(region, offset, bytes, at);
  }
  // After all participants: tells the tool what their devices saw.
  Result<> report();

 private:
  enum class Holder : u8 { Free, Participant, Tool };
  Result<u32> announce(protocol::Type type, const std::string &name, u64 bytes);
  Result<> wait_for_slot();
  Result<> check_range(u32 region, u64 offset, u64 bytes) const;
  Result<> send_place(protocol::Type type, u32 region, u64 offset, u64 bytes, u64 at);

  Channel &tool_;
  Staging &staging_;
  const Lineage lineage_;
  std::string prefix_;
  std::set<std::string> names_;
  std::vector<u64> region_bytes_;  // by number
  std::vector<Holder> holders_;    // by slot
  std::vector<u32> free_;
  bool alone_ = false;
  bool file_sent_ = false;
  Looked looked_;  // by all participants
  u64 bytes_ = 0;
};

}  // namespace ckpt::agent
