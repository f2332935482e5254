// SPDX-License-Identifier: Apache-2.0
//
// Contents of device memory in files of this machine: in memory, or on a disk. For a suspended
// program, and during a dump for an API whose devices lose them at detach().
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "agent/ipc/own_fd.h"
#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::agent {

class ContentsStore {
 public:
  // Writes to one file wait for each other in the kernel, so there are several, which take turns:
  // two threads that write into one are slower than one (3.4 GB/s instead of 5.3), into two nearly
  // twice as fast (9.8 GB/s). As many as one message takes descriptors.
  static constexpr size_t kFiles = 8;

  // In memory if `folder` is empty; else in files there that have no name. Bounded by what is free
  // now.
  static Result<ContentsStore> create(const std::string &folder);

  // Where so many bytes find room: in memory (""), else the folder TMPDIR, else /var/tmp.
  static Result<std::string> place_for(u64 bytes);

  Result<> region(const std::string &name, u64 bytes);
  u64 bytes() const { return bytes_; }

  // Every region whose name begins with `prefix`.
  struct Region {
    std::string name;
    u64 bytes = 0;
    u64 at = 0;  // where it begins, for write() and read()
  };
  std::vector<Region> regions(const std::string &prefix) const;
  // Where `bytes` bytes at `offset` of a region stand.
  Result<u64> place_of(const std::string &name, u64 offset, u64 bytes) const;

  // From any thread, also while regions are added. A piece of zeros costs nothing.
  Result<> write(u64 at, ByteView bytes) const;
  Result<> read(u64 at, std::span<std::byte> into) const;

  // While CRIU looks the files are with the session keeper.
  Result<> hand_to_keeper();
  Result<> fetch_from_keeper();
  bool handed() const { return token_ != 0; }

 private:
  using Files = std::array<OwnFd, kFiles>;
  ContentsStore(Files files, u64 most) : files_(std::move(files)), most_(most) {}

  Files files_;
  u64 most_ = 0;  // bytes that there is room for
  u64 bytes_ = 0;
  u64 token_ = 0;
  std::map<std::string, Region> regions_;
};

}  // namespace ckpt::agent
