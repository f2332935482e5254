// SPDX-License-Identifier: Apache-2.0
//
// The client's end of the command ring (wire.h). `ring` is the start of the shared memory.
#pragma once

#include <algorithm>

#include "ring/wire.h"

namespace ckpt::ocl {

inline Header &header_of(std::byte *ring) { return *reinterpret_cast<Header *>(ring); }

// Whether a command of so many bytes, with its header, can be pushed now. A command never straddles
// the end of the ring, so the rest up to the end is needed, too, where it does not fit there.
inline bool has_room(std::byte *ring, size_t bytes) {
  const Header &h = header_of(ring);
  u64 head = h.command_head.load(std::memory_order_relaxed);
  size_t to_end = kCommandRingBytes - head % kCommandRingBytes;
  size_t need = to_end < bytes ? to_end + bytes : bytes;
  return kCommandRingBytes - (head - h.command_tail.load(std::memory_order_acquire)) >= need;
}

// There is room. A wrap mark tells the proxy to continue at the start.
inline void push(std::byte *ring, const CommandHeader &c, ByteView payload) {
  Header &h = header_of(ring);
  u64 head = h.command_head.load(std::memory_order_relaxed);
  size_t bytes = sizeof c + padded(payload.size());
  if (size_t to_end = kCommandRingBytes - head % kCommandRingBytes; to_end < bytes) {
    CommandHeader wrap{kWrap, 0, 0, 0};
    std::memcpy(ring + kCommandsAt + head % kCommandRingBytes, &wrap,
                std::min(sizeof wrap, to_end));
    head += to_end;
  }
  std::byte *at = ring + kCommandsAt + head % kCommandRingBytes;
  std::memcpy(at, &c, sizeof c);
  if (!payload.empty()) std::memcpy(at + sizeof c, payload.data(), payload.size());
  h.command_head.store(head + bytes, std::memory_order_seq_cst);
}

}  // namespace ckpt::ocl
