// SPDX-License-Identifier: Apache-2.0
//
// Contents of device memory in a file of this machine: in memory, or on a disk. For a suspended
// program, and during a dump for an API whose devices lose them at detach().
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/own_fd.h"
#include "agent/participant.h"
#include "agent/staging.h"

namespace ckpt {

class Store {
 public:
  // In memory if `folder` is empty; else in a file there that has no name. Bounded by what is free
  // now.
  static Result<Store> create(const std::string &folder);

  // Where so many bytes find room: in memory (""), else the folder TMPDIR, else /var/tmp.
  static Result<std::string> place_for(u64 bytes);

  Result<> region(const std::string &name, u64 bytes);
  // A piece of zeros costs nothing.
  Result<> write(const std::string &name, u64 offset, ByteView bytes);
  u64 bytes() const { return bytes_; }

  // Every region whose name begins with `prefix`.
  struct Region {
    std::string name;
    u64 bytes = 0;
    u64 at = 0;  // in the file
  };
  std::vector<Region> regions(const std::string &prefix) const;
  Result<> read(u64 at, std::span<std::byte> into) const;

  // While CRIU looks the file is with the session keeper.
  Result<> hand_to_keeper();
  Result<> fetch_from_keeper();
  bool handed() const { return token_ != 0; }

 private:
  Store(OwnFd file, u64 most) : file_(std::move(file)), most_(most) {}
  OwnFd file_;
  u64 most_ = 0;  // bytes that there is room for
  u64 bytes_ = 0;
  u64 token_ = 0;
  std::map<std::string, Region> regions_;
};

// Saves go on to `next` and into the store.
class CopyingSink : public Sink {
 public:
  CopyingSink(Sink &next, Store &store, std::string prefix)
      : next_(next), store_(store), prefix_(std::move(prefix)) {}
  int staging_fd() const override { return next_.staging_fd(); }
  u32 slot_bytes() const override { return next_.slot_bytes(); }
  u32 slot_count() const override { return next_.slot_count(); }
  Result<u32> region(const std::string &name, u64 bytes) override;
  Result<Slot> acquire() override { return next_.acquire(); }
  Result<> put(u32 region, u64 offset, Slot slot, u32 bytes) override;
  ImageId image() const override { return next_.image(); }

 private:
  Sink &next_;
  Store &store_;
  std::string prefix_;
  std::map<u32, std::string> names_;
};

// Saves go into the store alone. By one thread: writes to one file wait for each other in the
// kernel, and several threads were no faster (0.146 s with one, 0.156 s with two, for 512 MiB).
class StoreSink : public Sink {
 public:
  StoreSink(Store &store, Staging &staging, std::string prefix);
  int staging_fd() const override { return staging_.fd(); }
  u32 slot_bytes() const override { return staging_.slot_bytes(); }
  u32 slot_count() const override { return staging_.slots(); }
  Result<u32> region(const std::string &name, u64 bytes) override;
  Result<Slot> acquire() override;
  Result<> put(u32 region, u64 offset, Slot slot, u32 bytes) override;

 private:
  Store &store_;
  Staging &staging_;
  std::string prefix_;
  std::vector<std::string> names_;
  std::vector<u32> free_;
};

// Loads come out of the store.
class StoreSource : public Source {
 public:
  StoreSource(const Store &store, Staging &staging, const std::string &prefix);
  int staging_fd() const override { return staging_.fd(); }
  u32 slot_bytes() const override { return staging_.slot_bytes(); }
  u32 slot_count() const override { return staging_.slots(); }
  Result<bool> next(Piece &piece) override;
  Result<> release(Slot slot) override;

 private:
  const Store &store_;
  Staging &staging_;
  size_t prefix_bytes_;
  std::vector<Store::Region> regions_;
  size_t at_ = 0;   // region
  u64 offset_ = 0;  // in it
  std::vector<u32> free_;
};

}  // namespace ckpt
