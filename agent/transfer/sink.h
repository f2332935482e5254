// SPDX-License-Identifier: Apache-2.0
//
// Save: the participants fill slots of staging memory and the tool empties them.
#pragma once

#include <set>
#include <vector>

#include "agent/transfer/staging.h"

namespace ckpt::agent {

class StagingSink : public Sink {
 public:
  struct Lineage {
    ImageId image{}, parent{};
  };
  StagingSink(Channel &tool, Staging &staging, const Lineage &lineage);

  // The participant of the regions that follow; their names get its prefix.
  void set_participant(const std::string &name) { prefix_ = name + "/"; }
  u64 bytes() const { return bytes_; }

  int staging_fd() const override { return staging_.fd(); }
  u32 slot_bytes() const override { return staging_.slot_bytes(); }
  u32 slot_count() const override { return staging_.slots(); }
  Result<u32> region(const std::string &name, u64 bytes) override;
  Result<Slot> acquire() override;
  Result<> put(u32 region, u64 offset, Slot slot, u32 bytes) override;
  ImageId image() const override { return lineage_.image; }
  ImageId parent() const override { return lineage_.parent; }
  Result<> same(const std::string &name, u64 bytes) override;

 private:
  enum class Holder : u8 { Free, Participant, Tool };
  Result<u32> announce(protocol::Type type, const std::string &name, u64 bytes);
  Result<> wait_for_slot();

  Channel &tool_;
  Staging &staging_;
  const Lineage lineage_;
  std::string prefix_;
  std::set<std::string> names_;
  std::vector<u64> region_bytes_;  // by number
  std::vector<Holder> holders_;    // by slot
  std::vector<u32> free_;
  u64 bytes_ = 0;
};

}  // namespace ckpt::agent
