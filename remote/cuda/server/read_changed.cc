// SPDX-License-Identifier: Apache-2.0
//
// The pieces of device memory that the program's side does not have yet (client/copies_ahead.cc).
#include <algorithm>

#include "remote/cuda/piece_hash.h"
#include "remote/cuda/server/ops.h"

namespace ckpt::remote::cuda {

// In a stream of its own, which waits for no kernel. The piece may be half written by one; what
// counts is that its hash is that of the bytes that are sent.
CUresult op_read_changed(Call &c) {
  u64 address = c.in.get<u64>(), bytes = c.in.get<u64>();
  ByteView hashes = c.in.raw(c.in.left());
  u64 pieces = bytes / kAheadBytes + (bytes % kAheadBytes != 0);
  bool fits = hashes.empty() || (hashes.size() % sizeof(PieceHash) == 0 &&
                                 hashes.size() / sizeof(PieceHash) == pieces);
  if (!c.in.ok() || !fits) return c.reject();
  if (bytes == 0 || !c.server.memory.maps(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  u64 ends = c.server.streams.ends();
  Bytes frame;
  for (u64 i = 0; i < pieces; i++) {
    u64 at = address + i * kAheadBytes, n = std::min(kAheadBytes, bytes - i * kAheadBytes);
    frame.resize(1 + n);
    std::span into = std::span(frame).subspan(1);
    CUresult e = c.server.streams.while_unended(ends, [&] {
      return c.server.memory.while_mapped(
          at, n, [&] { return c.server.streams.read(c.header.context, into, at); });
    });
    if (e != CUDA_SUCCESS) return e;
    PieceHash now = hash_of(into);
    bool changed =
        hashes.empty() || std::memcmp(&now, hashes.data() + i * sizeof now, sizeof now) != 0;
    frame[0] = std::byte{changed};
    c.give(ByteView(frame).first(changed ? frame.size() : 1));
  }
  return CUDA_SUCCESS;
}

}  // namespace ckpt::remote::cuda
