// SPDX-License-Identifier: Apache-2.0
//
// Device memory that the program shares with the device (client/shared_memory.h). For each range
// there is a copy here, as it was when the program's memory and the device's were last equal. The
// program sends what it has changed; what the device has changed is found by comparing.
//
// Copies go through streams that wait for no other one: the program's host functions need them
// while its streams wait.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "remote/cuda/server/own_streams.h"
#include "remote/cuda/zero_pages.h"

namespace ckpt::remote::cuda {

class Mirrors {
 public:
  explicit Mirrors(OwnStreams &streams) : streams_(streams) {}

  // Zeros on the device and here; again for the same range. `context`: the current one's number.
  CUresult begin(u64 context, u64 base, u64 bytes);
  void end(u64 base);
  // The memory will be gone.
  void end_within(u64 base, u64 bytes);
  // What the program has changed.
  struct Range {
    u64 address;
    ByteView bytes;
  };
  CUresult write(u64 context, std::span<Range> ranges);
  // What the device has changed in any range since both sides were equal.
  using Changed = std::function<void(u64 address, ByteView bytes)>;
  CUresult read(u64 context, u64 gap, const Changed &changed);

 private:
  // The copy of these bytes, or nullptr.
  std::byte *copy_of(u64 address, u64 bytes);
  CUresult read_together(CUstream stream, u64 first, u64 last, u64 gap, const Changed &changed);

  std::mutex mutex_;
  std::map<u64, ZeroPages> all_;  // by address
  OwnStreams &streams_;
};

}  // namespace ckpt::remote::cuda
