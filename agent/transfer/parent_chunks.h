// SPDX-License-Identifier: Apache-2.0
//
// The chunks that the parent image has of this process's device memory. During a dump that ends the
// program they stay on the device, and are lost with it. If the dump is undone after that, they are
// read from the parent: by a process of ckpt-dump's, which outlives a killed ckpt-dump and had the
// image open before anything was lost. The image can be removed meanwhile.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "agent/ipc/channel.h"
#include "agent/participant/participant.h"

namespace ckpt::agent {

class ParentChunks {
 public:
  // From a request ParentChunks.
  static Result<ParentChunks> from(Incoming &request);

  bool contains(const ChunkAddress &address) const;
  // Reads a chunk, which fills `into`. Thread-safe.
  Result<> read(const ChunkAddress &address, std::span<std::byte> into);

  // The connection to the process that reads. The session keeper holds it while CRIU dumps this
  // process.
  const Channel &reader() const { return reader_; }
  void hang_up() { reader_.hang_up(); }
  void connect(OwnFd socket) { reader_ = Channel(std::move(socket)); }

 private:
  ParentChunks(std::vector<ChunkAddress> addresses, Channel reader)
      : addresses_(std::move(addresses)), reader_(std::move(reader)) {}
  Result<> ask(const ChunkAddress &address, std::span<std::byte> into) const;

  std::vector<ChunkAddress> addresses_;  // sorted
  Channel reader_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // one request at a time
};

}  // namespace ckpt::agent
