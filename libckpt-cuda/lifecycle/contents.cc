// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/contents.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt-cuda/lifecycle/transfer.h"
#include "libckpt-cuda/memory/ipc_memory.h"
#include "libckpt-cuda/memory/reachable.h"
#include "libckpt-cuda/memory/served.h"
#include "libckpt-cuda/survey/survey.h"

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

// What one chunk of device memory needs.
enum class Need : u8 { Copy, Zeros, Nothing };

// Neighbouring chunks that need the same; or one that needs nothing, because the parent image has
// it.
struct Run {
  Need need = Need::Copy;
  u64 bytes = 0;
};

// What the devices saw, as runs of chunks.
class Runs {
 public:
  Runs(const std::vector<Contents> &all, const agent::Sink &sink) : all_(all), sink_(sink) {
    std::optional<u64> seed = sink.seed();
    // A chunk must begin where a slot may begin.
    if (sink.takes_zeros() && agent::kChunkBytes % sink.slot_bytes() == 0)
      survey_ = look_at(all, seed.value_or(0), seed.has_value(),
                        [](CUcontext context) { return std::make_unique<DeviceLooker>(context); });
  }

  // From byte `at` of contents `i`, a multiple of the size of a chunk.
  Run at(size_t i, u64 at) const {
    u64 end = at, bytes = all_[i].bytes;
    Need need = need_of(i, at);
    do end = std::min(bytes, end + agent::kChunkBytes);
    while (need != Need::Nothing && end < bytes && need_of(i, end) == need);
    return {need, end - at};
  }
  agent::ChunkAddress address(size_t i, u64 at) const {
    const Seen *seen = survey_.at(i, at / agent::kChunkBytes);
    return {seen->address.low, seen->address.high};
  }
  const std::vector<std::string> &blind() const { return survey_.not_looked; }

 private:
  Need need_of(size_t i, u64 at) const {
    const Seen *seen = survey_.at(i, at / agent::kChunkBytes);
    if (seen == nullptr) return Need::Copy;
    if (seen->zeros != 0) return Need::Zeros;
    return sink_.seed() && sink_.knows(address(i, at)) ? Need::Nothing : Need::Copy;
  }

  const std::vector<Contents> &all_;
  const agent::Sink &sink_;
  Survey survey_;
};

// Copies of several regions overlap.
class Saver {
 public:
  // `owned`: of the memory whose owner copies it; null: it has none.
  Saver(agent::Sink &sink, OwnedMemory *owned)
      : sink_(sink), owned_(owned), staging_(sink.slot_count(), sink.slot_bytes()) {}

  // Contents `i` of the runs.
  Result<> save(const Contents &c, size_t i, const Runs &runs) {
    CKPT_TRY(u32 region, sink_.region(c.region, c.bytes));
    for (u64 at = 0; at < c.bytes;) {
      Run run = runs.at(i, at);
      if (run.need == Need::Zeros)
        CKPT_CHECK(zeros(region, at, run.bytes));
      else if (run.need == Need::Nothing)
        CKPT_CHECK(sink_.same_chunk(region, at, static_cast<u32>(run.bytes), runs.address(i, at)));
      else
        CKPT_CHECK(copy(c, region, at, at + run.bytes));
      at += run.bytes;
    }
    return {};
  }
  Result<> finish(const Runs &runs) {
    CKPT_CHECK(transfer_.drain());
    looked_.blind = runs.blind();
    sink_.looked(looked_);
    return owned_ != nullptr ? owned_->drain(sink_) : Result<>{};
  }

 private:
  Result<> zeros(u32 region, u64 at, u64 bytes) {
    looked_.zero_bytes += bytes;
    return sink_.zeros(region, at, bytes);
  }
  Result<> copy(const Contents &c, u32 region, u64 at, u64 end) {
    while (at < end) {
      CKPT_TRY(u64 later, leave_to_owner(c, region, at, end));
      at += later;
      if (later > 0) continue;
      CKPT_TRY(std::span<std::byte> place, sink_.place(region, at, end - at));
      CKPT_TRY(u64 bytes,
               place.empty() ? to_slot(c, region, at, end) : to_place(c, region, at, place));
      at += bytes;
    }
    return {};
  }
  // The number of bytes; 0: there is no owner, or no room for later copies.
  Result<u64> leave_to_owner(const Contents &c, u32 region, u64 at, u64 end) {
    if (owned_ == nullptr) return 0;
    CKPT_TRY(agent::Sink::Later place, sink_.later(region, at, end - at));
    if (place.bytes > 0) owned_->due({c.key, at, place.bytes, place.at});
    return place.bytes;
  }
  Result<u64> to_place(const Contents &c, u32 region, u64 at, std::span<std::byte> place) {
    CKPT_CHECK(transfer_.to_host(c.context, place.data(), c.base + at, place.size(),
                                 [=, this] { return sink_.placed(region, at, place); }));
    return place.size();
  }
  Result<u64> to_slot(const Contents &c, u32 region, u64 at, u64 end) {
    u32 bytes = static_cast<u32>(std::min<u64>(sink_.slot_bytes(), end - at));
    CKPT_TRY(agent::Slot slot, sink_.acquire());
    staging_.pin(c.context, slot);
    CKPT_CHECK(transfer_.to_host(c.context, slot.data, c.base + at, bytes,
                                 [=, this] { return sink_.put(region, at, slot, bytes); }));
    return bytes;
  }

  agent::Sink &sink_;
  OwnedMemory *const owned_;
  PinnedStaging staging_;
  Transfer transfer_;
  agent::Looked looked_;
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

Result<> save_contents(agent::Sink &sink, OwnedMemory &owned) {
  CKPT_CHECK(ipc_memory().save());
  Reachable reachable;
  CKPT_TRY(std::vector<Contents> all, reachable.contents());
  Runs runs(all, sink);
  Saver saver(sink, owned.give(sink) ? &owned : nullptr);
  for (size_t i = 0; i < all.size(); ++i) CKPT_CHECK(saver.save(all[i], i, runs));
  return saver.finish(runs);
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
    if (ipc_memory().is_there(c.key)) {
      if (!piece.zeros) CKPT_CHECK(source.release(piece.slot));
      continue;
    }
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
