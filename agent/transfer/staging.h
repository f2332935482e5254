// SPDX-License-Identifier: Apache-2.0
//
// Staging memory, mapped into this process for one Save or Load.
#pragma once

#include "agent/ipc/channel.h"
#include "agent/participant/participant.h"

namespace ckpt::agent {

inline constexpr u32 kMaxSlots = 4096;
inline constexpr u32 kMaxSlotBytes = 1u << 30;

class Staging {
 public:
  // The tool's: from a Save or a Load, with {u32 slots, u32 slot bytes} and a memfd of at least
  // their product.
  static Result<Staging> map(Incoming &request);
  // New memory, for copies into and out of a contents store.
  static Result<Staging> create(u32 slots, u32 slot_bytes);
  Staging(Staging &&o) noexcept;
  Staging &operator=(Staging &&) = delete;
  ~Staging();

  int fd() const { return fd_.get(); }
  u32 slots() const { return slots_; }
  u32 slot_bytes() const { return slot_bytes_; }
  Slot slot(u32 index) const { return {index, base_ + u64{index} * slot_bytes_}; }

  // Whether a piece of `bytes` at `offset` is valid in a region of `total` bytes.
  Result<> check_piece(u64 offset, u32 bytes, u64 total) const;

 private:
  Staging(OwnFd fd, u32 slots, u32 slot_bytes, std::byte *base);
  static Result<Staging> map_fd(OwnFd fd, u32 slots, u32 slot_bytes);
  u64 size() const { return u64{slots_} * slot_bytes_; }

  OwnFd fd_;
  u32 slots_ = 0;
  u32 slot_bytes_ = 0;
  std::byte *base_ = nullptr;
};

}  // namespace ckpt::agent
