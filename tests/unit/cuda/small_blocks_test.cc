// SPDX-License-Identifier: Apache-2.0
#include "cuda/small_blocks.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using namespace ckpt;
using namespace ckpt::api;

namespace {

constexpr u64 kBlockBytes = 16 * kGrainBytes, kFirst = 1 << 20;

struct Live {
  u64 base = 0, block = 0, bytes = 0;
};

// Blocks with a flag for each grain, and a search from the first to the last.
struct Model {
  struct Block {
    int owner = 0;
    std::vector<bool> free = std::vector<bool>(kBlockBytes / kGrainBytes, true);
  };
  std::map<u64, Block> blocks;

  static u64 grains(u64 bytes) { return rounded_up(bytes, kGrainBytes) / kGrainBytes; }
  bool fits(const Block &b, u64 first, u64 bytes) const {
    for (u64 i = first; i < first + grains(bytes); i++)
      if (i >= b.free.size() || !b.free[i]) return false;
    return true;
  }
  bool has_room(int owner, u64 bytes) const {
    for (const auto &[base, b] : blocks)
      for (u64 i = 0; b.owner == owner && i < b.free.size(); i++)
        if (fits(b, i, bytes)) return true;
    return false;
  }
  void set(const Live &l, bool free) {
    for (u64 i = 0; i < grains(l.bytes); i++)
      blocks[l.block].free[(l.base - l.block) / kGrainBytes + i] = free;
  }
  bool is_whole(u64 block) const {
    for (bool free : blocks.at(block).free)
      if (!free) return false;
    return true;
  }
};

struct History {
  SmallBlocks<int> small;
  Model model;
  std::mt19937 chance{1};
  std::vector<Live> live;
  u64 next_block = kFirst;

  void allocate() {
    int owner = static_cast<int>(chance() % 3);
    u64 bytes = 1 + chance() % (kBlockBytes / 2);
    bool room = model.has_room(owner, bytes);
    auto piece = small.take(owner, bytes);
    REQUIRE(piece.has_value() == room);
    if (!piece) {
      small.add(owner, next_block, kBlockBytes, bytes);
      model.blocks[next_block].owner = owner;
      piece = SmallBlocks<int>::Piece{next_block, next_block};
      next_block += kBlockBytes;
    }
    REQUIRE(model.blocks.at(piece->block).owner == owner);
    REQUIRE(piece->base % kGrainBytes == 0);
    REQUIRE(model.fits(model.blocks.at(piece->block), (piece->base - piece->block) / kGrainBytes,
                       bytes));
    REQUIRE(small.block_of(piece->base) == piece->block);
    live.push_back({piece->base, piece->block, bytes});
    model.set(live.back(), false);
  }
  void release() {
    std::swap(live[chance() % live.size()], live.back());
    Live l = live.back();
    live.pop_back();
    model.set(l, true);
    bool whole = small.give(l.block, l.base, l.bytes);
    REQUIRE(whole == model.is_whole(l.block));
    if (!whole || chance() % 2 == 0) return;  // some stay without a piece
    small.remove(l.block);
    model.blocks.erase(l.block);
  }
  void compare() const {
    std::map<u64, int> all;
    small.for_each([&](int owner, u64 base) { all[base] = owner; });
    REQUIRE(all.size() == model.blocks.size());
    for (const auto &[base, b] : model.blocks) REQUIRE(all.at(base) == b.owner);
  }
};

}  // namespace

TEST_CASE("SmallBlocks finds room wherever a search of every block finds it") {
  History h;
  for (int step = 0; step < 20'000; step++) {
    if (h.live.empty() || h.chance() % 100 < 52)
      h.allocate();
    else
      h.release();
    if (h.live.size() > 300)
      while (!h.live.empty()) h.release();
    if (step % 100 == 0) h.compare();
  }
}

TEST_CASE("a block that is removed with its pieces is not used again") {
  SmallBlocks<int> small;
  small.add(1, kFirst, kBlockBytes, 1);
  small.remove(kFirst);
  small.remove(kFirst);
  CHECK(!small.take(1, 1));
}
