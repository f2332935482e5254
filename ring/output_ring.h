// SPDX-License-Identifier: Apache-2.0
//
// What kernels print, on its way from the proxy to the program, which writes it: only the program
// knows where its standard output leads at that moment. The ring lies in the header's page, behind
// the header. It holds records: an OutputHeader, and the bytes, padded to a multiple of four.
//
//   driver      printf             → the proxy's standard output, a pipe
//   proxy       pipe               → output ring; then the completion of the command
//   client      takes the output before it takes a completion
//
// A client that does not know this ring leaves Header::takes_output at 0; the proxy then writes to
// the standard output that it was started with.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "ring/wire.h"

namespace ckpt::ocl {

inline constexpr size_t kOutputAt = 2048, kOutputBytes = kCommandsAt - kOutputAt;
static_assert(sizeof(Header) <= kOutputAt);

struct OutputHeader {
  u16 bytes;
  OutputWay way;
};
static_assert(sizeof(OutputHeader) == 4);
constexpr size_t padded_output(size_t bytes) { return (bytes + 3) / 4 * 4; }
inline constexpr size_t kMostInRecord = kOutputBytes / 2 - sizeof(OutputHeader);

// Copies to or from the ring, at `at` since the start.
inline void put_output(std::byte *memory, u64 at, const void *from, size_t bytes) {
  size_t place = at % kOutputBytes, first = std::min(bytes, kOutputBytes - place);
  std::memcpy(memory + kOutputAt + place, from, first);
  std::memcpy(memory + kOutputAt, static_cast<const std::byte *>(from) + first, bytes - first);
}
inline void get_output(const std::byte *memory, u64 at, void *to, size_t bytes) {
  size_t place = at % kOutputBytes, first = std::min(bytes, kOutputBytes - place);
  std::memcpy(to, memory + kOutputAt + place, first);
  std::memcpy(static_cast<std::byte *>(to) + first, memory + kOutputAt, bytes - first);
}

// Calls f(OutputWay, std::string) for each record in [tail, head). Returns false if they are
// damaged.
template <class F>
bool each_output(const std::byte *memory, u64 tail, u64 head, F f) {
  if (head - tail > kOutputBytes) return false;
  while (tail != head) {
    OutputHeader h{};
    if (head - tail < sizeof h) return false;
    get_output(memory, tail, &h, sizeof h);
    tail += sizeof h;
    if (h.bytes > kMostInRecord || padded_output(h.bytes) > head - tail) return false;
    std::string text(h.bytes, '\0');
    get_output(memory, tail, text.data(), h.bytes);
    tail += padded_output(h.bytes);
    f(h.way, std::move(text));
  }
  return true;
}

}  // namespace ckpt::ocl
