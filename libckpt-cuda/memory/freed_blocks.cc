// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/freed_blocks.h"

#include <numeric>

#include "libckpt-cuda/entry/streams.h"

namespace ckpt::cuda {
namespace {

// A block may be larger than the allocation that gets it by this share of it.
constexpr u64 kSpareShare = 8;

bool suffices(const Block &block, u64 bytes) {
  return block.bytes >= bytes && block.bytes - bytes <= block.bytes / kSpareShare;
}

CUresult record_event(const StreamPlace &place, CUevent &event) {
  CurrentContext current(place.context);
  CUresult e = driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (e != CUDA_SUCCESS) return e;
  e = driver().cuEventRecord(event, place.stream);
  if (e != CUDA_SUCCESS) driver().cuEventDestroy_v2(event);
  return e;
}

}  // namespace

void FreedBlocks::destroy_event(Freed &f) {
  if (f.event == nullptr) return;
  CurrentContext current(f.place.context);
  driver().cuEventDestroy_v2(f.event);
  f.event = nullptr;
}

// A query during a capture of the program would end that capture (CU_STREAM_CAPTURE_MODE_GLOBAL).
bool FreedBlocks::has_happened(Freed &f) {
  if (f.event == nullptr) return true;
  if (capturing()) return false;
  CurrentContext current(f.place.context);
  if (driver().cuEventQuery(f.event) == CUDA_ERROR_NOT_READY) return false;
  destroy_event(f);
  return true;
}

CUresult FreedBlocks::add(const Block &block, const StreamPlace *place) {
  Freed f{block, place != nullptr ? *place : StreamPlace{}, nullptr};
  CUresult e = place != nullptr ? record_event(*place, f.event) : CUDA_SUCCESS;
  if (e == CUDA_SUCCESS) blocks_.push_back(f);
  return e;
}

bool FreedBlocks::take_ready(u64 bytes, const StreamPlace &place, bool any_stream, Block &out) {
  auto best = blocks_.end();
  for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
    if (!suffices(it->block, bytes) || (!any_stream && it->place != place)) continue;
    if (best != blocks_.end() && best->block.bytes <= it->block.bytes) continue;
    if (has_happened(*it)) best = it;
  }
  if (best == blocks_.end()) return false;
  out = best->block;
  blocks_.erase(best);
  return true;
}

// The driver uses stream handles again, so a block waits even for what seems to be its own stream.
bool FreedBlocks::take_waiting(u64 bytes, const StreamPlace &place, bool same_stream, Block &out) {
  for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
    if (same_stream != (it->place == place) || !suffices(it->block, bytes)) continue;
    if (it->event != nullptr) {
      CurrentContext current(place.context);
      if (driver().cuStreamWaitEvent(place.stream, it->event, 0) != CUDA_SUCCESS) continue;
      destroy_event(*it);  // whatever waits for it still does
    }
    out = it->block;
    blocks_.erase(it);
    return true;
  }
  return false;
}

void FreedBlocks::take_out_unmapped(std::vector<Block> &out) {
  std::erase_if(blocks_, [&](Freed &f) {
    if (f.block.mapped) return false;
    destroy_event(f);
    out.push_back(f.block);
    return true;
  });
}

std::vector<Block *> FreedBlocks::all() {
  std::vector<Block *> all;
  for (Freed &f : blocks_) all.push_back(&f.block);
  return all;
}

void FreedBlocks::context_destroyed(CUcontext context) {
  for (Freed &f : blocks_)
    if (f.place.context == context) f.event = nullptr;
}

u64 FreedBlocks::bytes() const {
  auto add = [](u64 sum, const Freed &f) { return sum + f.block.bytes; };
  return std::accumulate(blocks_.begin(), blocks_.end(), u64{0}, add);
}

u64 FreedBlocks::unused_bytes() {
  auto add = [](u64 sum, Freed &f) { return sum + (has_happened(f) ? f.block.bytes : 0); };
  return std::accumulate(blocks_.begin(), blocks_.end(), u64{0}, add);
}

CUresult FreedBlocks::set_access(std::span<const CUmemAccessDesc> access) {
  for (Freed &f : blocks_)
    if (CUresult e = give_access(f.block.base, f.block.bytes, access); e != CUDA_SUCCESS) return e;
  return CUDA_SUCCESS;
}

}  // namespace ckpt::cuda
