// SPDX-License-Identifier: Apache-2.0
//
// The other end of a socket with the frames of common/ipc/unix_socket.h: it has said everything
// before it is asked, and has hung up.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>

#include "common/ipc/unix_socket.h"

namespace ckpt {

// A socket takes this at once without a reader.
inline constexpr size_t kMostSaid = 64u << 10;

struct FakePeer {
  explicit FakePeer(ByteView says) {
    Result<std::pair<UniqueFd, UniqueFd>> ends = socket_pair();
    if (!ends || !write_all(ends->second.get(), says.first(std::min(says.size(), kMostSaid))))
      std::abort();
    ::shutdown(ends->second.get(), SHUT_WR);
    ours = std::move(ends->first);
    theirs = std::move(ends->second);  // open, so that what we send is not refused
  }
  UniqueFd ours, theirs;
};

// The bytes as frames whose heads are sound: sizes end with the input, and no descriptor is
// announced. So the fuzzer reaches the bodies.
inline Bytes as_frames(ByteView in) {
  struct Head {
    u32 size;
    u16 type, descriptors;
  };
  Bytes out(in.begin(), in.end());
  for (size_t at = 0; at + sizeof(Head) <= out.size();) {
    Head h;
    std::memcpy(&h, &out[at], sizeof h);
    h.size = static_cast<u32>(std::min<size_t>(h.size, out.size() - at - sizeof h));
    h.descriptors = 0;
    std::memcpy(&out[at], &h, sizeof h);
    at += sizeof h + h.size;
  }
  return out;
}

}  // namespace ckpt
