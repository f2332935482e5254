// SPDX-License-Identifier: Apache-2.0
//
// Small allocations of device memory, several of which share a block.
//
// The problem: physical memory comes in blocks (2 MiB on today's devices), and programs allocate a
// few KiB. So a small allocation is a piece of a block that other pieces of the same owner (a
// context, a device) use, too. The caller makes a block, and unmaps it when it is free as a whole;
// here is only which addresses are free.
//
// The algorithm: best fit by block. The search begins with the block with the smallest largest_free
// that suffices. largest_free is an upper bound, so that giving a piece back costs no search: it
// raises the bound, and a search that finds no room lowers it.
//
// Cost: a few tree operations for each piece, however many blocks there are.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/base/rounded_up.h"
#include "common/base/spans.h"

namespace ckpt::api {

// Small allocations are rounded up to this and aligned at it. The driver guarantees at least 256.
inline constexpr u64 kGrainBytes = 512;

// A larger allocation has blocks of its own.
constexpr bool is_small(u64 bytes, u64 block_bytes) { return bytes <= block_bytes / 2; }
// What an allocation takes of a block, or of blocks.
constexpr u64 reserved_bytes(u64 bytes, u64 block_bytes) {
  return rounded_up(bytes, is_small(bytes, block_bytes) ? kGrainBytes : block_bytes);
}

// `Owner` is ordered by <. Sizes of pieces are as the program asks for them.
template <class Owner>
class SmallBlocks {
 public:
  struct Piece {
    u64 base = 0, block = 0;  // addresses
  };

  // No value: no block of this owner has room.
  std::optional<Piece> take(const Owner &owner, u64 bytes) {
    auto of_owner = roomy_.find(owner);
    if (of_owner == roomy_.end()) return {};
    Roomy &roomy = of_owner->second;
    u64 grains = rounded_up(bytes, kGrainBytes);
    for (auto it = roomy.lower_bound({grains, 0}); it != roomy.end();
         it = roomy.lower_bound({grains, 0})) {
      u64 base = it->second;
      Block &b = blocks_.at(base);
      if (std::optional<u64> at = b.free.take(grains, kGrainBytes)) return Piece{*at, base};
      set_largest_free(base, b, grains - kGrainBytes);  // the bound was too high
    }
    return {};
  }

  // A new block, of which the first `piece` bytes are taken.
  void add(const Owner &owner, u64 base, u64 bytes, u64 piece) {
    u64 grains = rounded_up(piece, kGrainBytes);
    Block &b = blocks_[base] = {owner, bytes, Spans(base, bytes), 0};
    b.free.take(grains, kGrainBytes);
    set_largest_free(base, b, bytes - grains);
  }

  // Gives a piece back. True: its block is free as a whole, and stays until remove().
  bool give(u64 block, u64 piece, u64 bytes) {
    Block &b = blocks_.at(block);
    b.free.give(piece, rounded_up(bytes, kGrainBytes));
    set_largest_free(block, b, b.bytes);
    return b.free.holds(block, b.bytes);
  }

  // The block of a piece.
  u64 block_of(u64 piece) const { return std::prev(blocks_.upper_bound(piece))->first; }

  // Its pieces are gone, too. Does nothing where no block begins.
  void remove(u64 block) {
    auto it = blocks_.find(block);
    if (it == blocks_.end()) return;
    set_largest_free(block, it->second, 0);
    blocks_.erase(it);
  }

  // f(owner, base) for each block, in the order of addresses.
  template <class F>
  void for_each(F f) const {
    for (const auto &[base, b] : blocks_) f(b.owner, base);
  }

 private:
  struct Block {
    Owner owner;
    u64 bytes = 0;
    Spans free;
    u64 largest_free = 0;  // an upper bound
  };
  // The blocks of an owner with room, as (largest_free, base).
  using Roomy = std::set<std::pair<u64, u64>>;

  void set_largest_free(u64 base, Block &b, u64 largest) {
    if (largest == b.largest_free) return;
    Roomy &roomy = roomy_[b.owner];
    roomy.erase({b.largest_free, base});
    b.largest_free = largest;
    if (largest > 0) roomy.insert({largest, base});
    if (roomy.empty()) roomy_.erase(b.owner);
  }

  std::map<u64, Block> blocks_;  // by address
  std::map<Owner, Roomy> roomy_;
};

}  // namespace ckpt::api
