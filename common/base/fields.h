// SPDX-License-Identifier: Apache-2.0
//
// Fields of a message from outside that say how many, where or which. A Reader (bytes.h) never
// reads past the end of the message; these check what a number means, at the place where it is
// read. A value that cannot be right makes the Reader fail, as a message that is too short does, so
// that a caller may still decode a whole message and check once. Every side of every wire uses
// them: a server that lies is as hostile as a client that does.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt {

// Whether `bytes` bytes at `offset` lie within `whole` bytes. No sum can wrap.
constexpr bool lies_within(u64 offset, u64 bytes, u64 whole) {
  return offset <= whole && bytes <= whole - offset;
}

// All further fields read as zero, and ok() is false.
inline void refuse_message(Reader &r) { r.raw(~size_t{0}); }

// How many records follow: at most `most`, and no more than there is room for if each takes at
// least `least` bytes. So a caller may allocate memory for them.
inline u32 read_count(Reader &r, size_t least, u32 most = ~u32{0}) {
  u32 n = r.get<u32>();
  if (n <= most && n <= r.left() / least) return n;
  refuse_message(r);
  return 0;
}

// {u32 n, n × str}
inline std::vector<std::string> read_texts(Reader &r, u32 most = ~u32{0}) {
  std::vector<std::string> all;
  for (u32 n = read_count(r, sizeof(u32), most); n > 0 && r.ok(); n--) all.emplace_back(r.str());
  return all;
}

// {u64 offset, u64 bytes}, within `whole` bytes.
struct ByteRange {
  u64 offset = 0, bytes = 0;
};
inline ByteRange read_range(Reader &r, u64 whole) {
  ByteRange p;
  p.offset = r.get<u64>();
  p.bytes = r.get<u64>();
  if (lies_within(p.offset, p.bytes, whole)) return p;
  refuse_message(r);
  return {};
}

// One of an enumeration's values up to `last`, which are numbered without gaps from 0.
template <class E>
E read_choice(Reader &r, E last) {
  E choice = r.get<E>();
  if (choice <= last) return choice;
  refuse_message(r);
  return E{};
}

}  // namespace ckpt
