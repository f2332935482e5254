// SPDX-License-Identifier: Apache-2.0
//
// Which addresses of a process have no contents yet, and where in a stream of the image these are.
#pragma once

#include <map>
#include <optional>

#include "common/base/bytes.h"

namespace ckpt::tools {

inline constexpr u64 kLazyPage = 4096;  // of CRIU's files

struct OwedPiece {
  u64 begin = 0, end = 0;
  u64 offset = 0;  // of the first byte, in the stream
  bool operator==(const OwedPiece &) const = default;
};

class OwedMap {
 public:
  // Pieces do not overlap.
  void add(const OwedPiece &piece) { pieces_[piece.begin] = {piece.end, piece.offset}; }
  // The piece with this address.
  std::optional<OwedPiece> find(u64 address) const;
  std::optional<OwedPiece> first() const { return next(0); }
  // The first piece that ends behind this address.
  std::optional<OwedPiece> next(u64 address) const;
  // Returns how many bytes were owed there.
  u64 drop(u64 begin, u64 end);
  // What is owed in [from, from + size) is owed at `to` instead, as mremap(2) moves memory. What
  // was owed there is not any more; returns how many bytes that were.
  u64 move(u64 from, u64 to, u64 size);
  bool empty() const { return pieces_.empty(); }
  u64 bytes() const;

 private:
  struct Rest {
    u64 end, offset;
  };
  void split(u64 at);

  std::map<u64, Rest> pieces_;  // by their beginning
};

}  // namespace ckpt::tools
