// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/contents.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt-cuda/lifecycle/transfer.h"
#include "libckpt-cuda/memory/reachable.h"
#include "libckpt-cuda/memory/served.h"

namespace ckpt::cuda {
namespace {

// Pins the whole staging memory, once the first slot tells where it is.
class PinnedStaging {
 public:
  PinnedStaging(u32 slots, u32 slot_bytes)
      : bytes_(u64{slots} * slot_bytes), slot_bytes_(slot_bytes) {}
  void pin(CUcontext context, const agent::Slot &slot) {
    if (!pinned_ && slot.index != agent::kNoSlot)
      pinned_.emplace(context, slot.data - u64{slot.index} * slot_bytes_, bytes_);
  }

 private:
  u64 bytes_, slot_bytes_;
  std::optional<PinnedMemory> pinned_;
};

// Copies of several regions overlap.
class Saver {
 public:
  explicit Saver(agent::Sink &sink) : sink_(sink), staging_(sink.slot_count(), sink.slot_bytes()) {}

  Result<> save(const Contents &c) {
    CKPT_TRY(u32 region, sink_.region(c.region, c.bytes));
    for (u64 at = 0; at < c.bytes;) {
      CKPT_TRY(std::span<std::byte> place, sink_.place(region, at, c.bytes - at));
      CKPT_TRY(u64 bytes, place.empty() ? to_slot(c, region, at) : to_place(c, region, at, place));
      at += bytes;
    }
    return {};
  }
  Result<> finish() { return transfer_.drain(); }

 private:
  Result<u64> to_place(const Contents &c, u32 region, u64 at, std::span<std::byte> place) {
    CKPT_CHECK(transfer_.to_host(c.context, place.data(), c.base + at, place.size(),
                                 [=, this] { return sink_.placed(region, at, place); }));
    return place.size();
  }
  Result<u64> to_slot(const Contents &c, u32 region, u64 at) {
    u32 bytes = static_cast<u32>(std::min<u64>(sink_.slot_bytes(), c.bytes - at));
    CKPT_TRY(agent::Slot slot, sink_.acquire());
    staging_.pin(c.context, slot);
    CKPT_CHECK(transfer_.to_host(c.context, slot.data, c.base + at, bytes,
                                 [=, this] { return sink_.put(region, at, slot, bytes); }));
    return bytes;
  }

  agent::Sink &sink_;
  PinnedStaging staging_;
  Transfer transfer_;
};

using Regions = std::unordered_map<std::string, Contents>;

// Fails where the piece does not lie in a region of this program: an image is not trusted.
Result<Contents> region_of(const agent::Source::Piece &piece, const Regions &regions) {
  auto found = regions.find(piece.region);
  if (found == regions.end() || piece.offset > found->second.bytes ||
      piece.bytes > found->second.bytes - piece.offset)
    return fail(
        "the image has {} bytes at offset {} of region \"{}\", where this program has no "
        "device memory",
        piece.bytes, piece.offset, piece.region);
  return found->second;
}

}  // namespace

u64 contents_bytes() { return bytes_to_save(agent::kRegionAlign); }

Result<> save_contents(agent::Sink &sink) {
  Reachable reachable;
  CKPT_TRY(std::vector<Contents> all, reachable.contents());
  Saver saver(sink);
  for (const Contents &c : all) CKPT_CHECK(saver.save(c));
  return saver.finish();
}

Result<> load_contents(agent::Source &source) {
  Reachable reachable;
  CKPT_TRY(std::vector<Contents> all, reachable.contents());
  Regions regions;
  for (Contents &c : all) regions.emplace(c.region, c);
  PinnedStaging staging(source.slot_count(), source.slot_bytes());
  Transfer transfer;
  agent::Source::Piece piece;
  for (;;) {
    CKPT_TRY(bool more, source.next(piece));
    if (!more) return transfer.drain();
    CKPT_TRY(Contents c, region_of(piece, regions));
    if (piece.zeros) {
      CKPT_CHECK(transfer.zero(c.context, c.base + piece.offset, piece.bytes));
      continue;
    }
    staging.pin(c.context, piece.slot);
    CKPT_CHECK(transfer.to_device(c.context, c.base + piece.offset, piece.slot.data, piece.bytes,
                                  [&source, slot = piece.slot] { return source.release(slot); }));
  }
}

}  // namespace ckpt::cuda
