// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/contents.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt-cuda/lifecycle/transfer.h"
#include "libckpt-cuda/memory/memory.h"

namespace ckpt::cuda {
namespace {

// Pins the whole staging memory, once the first slot tells where it is.
class PinnedStaging {
 public:
  PinnedStaging(u32 slots, u32 slot_bytes)
      : bytes_(u64{slots} * slot_bytes), slot_bytes_(slot_bytes) {}
  void pin(CUcontext context, const agent::Slot &slot) {
    if (!pinned_) pinned_.emplace(context, slot.data - u64{slot.index} * slot_bytes_, bytes_);
  }

 private:
  u64 bytes_, slot_bytes_;
  std::optional<PinnedMemory> pinned_;
};

// `transfer` and `staging` are passed along because copies of several regions overlap.
Result<> save_region(const Contents &c, u32 region, agent::Sink &sink, PinnedStaging &staging,
                     Transfer &transfer) {
  for (u64 at = 0; at < c.bytes; at += sink.slot_bytes()) {
    u32 bytes = static_cast<u32>(std::min<u64>(sink.slot_bytes(), c.bytes - at));
    CKPT_TRY(agent::Slot slot, sink.acquire());
    staging.pin(c.context, slot);
    CKPT_CHECK(transfer.to_host(c.context, slot.data, c.base + at, bytes,
                                [=, &sink] { return sink.put(region, at, slot, bytes); }));
  }
  return {};
}

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

u64 contents_bytes() {
  u64 bytes = 0;
  for (const Contents &c : memory().contents()) bytes += c.bytes;
  return bytes;
}

Result<> save_contents(agent::Sink &sink) {
  PinnedStaging staging(sink.slot_count(), sink.slot_bytes());
  Transfer transfer;
  for (const Contents &c : memory().contents()) {
    CKPT_TRY(u32 region, sink.region(c.region, c.bytes));
    CKPT_CHECK(save_region(c, region, sink, staging, transfer));
  }
  return transfer.drain();
}

Result<> load_contents(agent::Source &source) {
  Regions regions;
  for (Contents &c : memory().contents()) regions.emplace(c.region, c);
  PinnedStaging staging(source.slot_count(), source.slot_bytes());
  Transfer transfer;
  agent::Source::Piece piece;
  for (;;) {
    CKPT_TRY(bool more, source.next(piece));
    if (!more) return transfer.drain();
    CKPT_TRY(Contents c, region_of(piece, regions));
    staging.pin(c.context, piece.slot);
    CKPT_CHECK(transfer.to_device(c.context, c.base + piece.offset, piece.slot.data, piece.bytes,
                                  [&source, slot = piece.slot] { return source.release(slot); }));
  }
}

}  // namespace ckpt::cuda
