// SPDX-License-Identifier: Apache-2.0
//
// The contents of device memory in files of this machine, in memory or on a disk: for a suspended
// program, and during a dump for an API that loses them in detach().
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/ipc/own_fd.h"
#include "agent/transfer/direct_memory.h"
#include "agent/transfer/parent_chunks.h"
#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::agent {

class ContentsStore {
 public:
  // The kernel serialises writes to one file, so the contents are striped over several: two threads
  // that write to one file are slower than one thread (3.4 instead of 5.3 GB/s), with two files
  // they are almost twice as fast (9.8 GB/s). The number is that of descriptors in one message.
  // The first file is not striped: it is the memory for direct copies, where there is one.
  static constexpr size_t kFiles = 8;

  // In memory if `folder` is empty, else in unnamed files (O_TMPFILE) in that folder. The capacity
  // is 90 % of what is free now. In memory there is room for `direct_bytes` bytes of direct copies,
  // unless the system refuses the addresses; further contents are written to the files.
  static Result<ContentsStore> create(const std::string &folder, u64 direct_bytes = 0);

  // A folder for create() with room for `bytes`: "" for memory, else TMPDIR, else /var/tmp. Fails
  // if none has enough.
  static Result<std::string> place_for(u64 bytes);

  // Adds a region; fails if it exceeds the capacity or the name is taken.
  Result<> region(const std::string &name, u64 bytes);
  u64 bytes() const { return bytes_; }

  // The regions with names that begin with `prefix`.
  struct Region {
    std::string name;
    u64 bytes = 0;
    u64 at = 0;  // its position in the store, for write() and read()
    // What is in direct(), and zeros, by offset; all else is in the files.
    std::map<u64, DirectMemory::Place> places;
  };
  // Instead of the position of a place that holds only zeros, and takes no memory.
  static constexpr u64 kZeros = ~u64{0};

  std::vector<Region> regions(const std::string &prefix) const;
  // The position in the store of `bytes` bytes at `offset` of a region.
  Result<u64> place_of(const std::string &name, u64 offset, u64 bytes) const;

  // What the parent image has is not in the store: read() reads it from there.
  void use_parent(std::shared_ptr<ParentChunks> chunks) { parent_ = std::move(chunks); }
  Result<> same_chunk(const std::string &name, u64 offset, u32 bytes, const ChunkAddress &address);

  // From any thread, also while regions are added. Zeros take no space.
  Result<> write(u64 at, ByteView bytes) const;
  Result<> read(u64 at, std::span<std::byte> into) const;

  // Memory for direct copies; null: there is none.
  DirectMemory *direct() const { return direct_.get(); }
  int direct_fd() const { return files_[0].get(); }
  // The device has written the bytes of a region at `offset` to `place`. Returns the position:
  // kZeros if all of them are zero, and then the place is free again.
  Result<u64> placed(const std::string &name, u64 offset, DirectMemory::Place place);
  // Another process will write the bytes of a region at `offset` to `place`.
  Result<> due(const std::string &name, u64 offset, DirectMemory::Place place);
  // Whether the contents are here only once that process has written them.
  bool has_due() const { return has_due_; }
  // The bytes are zero, and the device has written them nowhere.
  Result<> zeros(const std::string &name, u64 offset, u64 bytes);

  // Of a file: its device, number and size.
  struct Identity {
    u64 device = 0, number = 0, bytes = 0;
    bool operator==(const Identity &) const = default;
  };

  // The session keeper holds the files while CRIU dumps this process, because CRIU would save them.
  Result<> hand_to_keeper();
  Result<> fetch_from_keeper();
  bool handed() const { return token_ != 0; }

 private:
  using Files = std::array<OwnFd, kFiles>;
  ContentsStore(Files files, u64 capacity, std::string folder)
      : files_(std::move(files)), folder_(std::move(folder)), capacity_(capacity) {}

  void add_direct(u64 bytes);
  Result<> hand_parent_to_keeper();
  Result<> fetch_parent_from_keeper();
  Result<Region *> region_with(const std::string &name, u64 offset, u64 bytes);

  Files files_;
  std::unique_ptr<DirectMemory> direct_;
  std::string folder_;  // "": host memory
  u64 capacity_ = 0;    // bytes
  u64 bytes_ = 0;
  bool has_due_ = false;
  u64 token_ = 0;  // of the files at the session keeper; zero: they are here
  std::array<Identity, kFiles> identities_{};
  std::map<std::string, Region> regions_;
  struct ParentChunk {
    u64 bytes = 0;
    ChunkAddress address;
  };
  std::map<u64, ParentChunk> from_parent_;  // by position in the store
  std::shared_ptr<ParentChunks> parent_;
  u64 parent_token_ = 0;  // of its socket at the session keeper
};

}  // namespace ckpt::agent
