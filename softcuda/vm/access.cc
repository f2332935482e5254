// SPDX-License-Identifier: Apache-2.0
#include "softcuda/vm/access.h"

namespace ckpt::softcuda::vm {
namespace {

char *in_window(Warp &w, u32 lane, u64 address, u32 bytes, bool write) {
  u64 at = address & (kWindowBytes - 1);
  switch (address & ~(kWindowBytes - 1)) {
    case kSharedWindow:
      if (at + bytes <= w.block->shared_bytes || (at >= kLateShared && at + bytes <= kSharedBytes))
        return reinterpret_cast<char *>(w.block->shared + at);
      return cluster_address(w, at, bytes);
    case kLocalWindow:
      if (at + bytes > w.local_bytes) return nullptr;
      return reinterpret_cast<char *>(w.local + lane * w.local_stride + at);
    case kParamWindow:
      if (write || at + bytes > w.grid->params.size()) return nullptr;
      return reinterpret_cast<char *>(w.grid->params.data() + at);
    default: return nullptr;
  }
}

}  // namespace

char *cluster_address(const Warp &w, u64 address, u32 bytes) {
  u64 rank = (address >> kRankShift) - 1, at = address & ((1u << kRankShift) - 1);
  const std::vector<Block *> &blocks = w.block->cluster->blocks;
  if (rank >= blocks.size()) return nullptr;
  const Block &b = *blocks[rank];
  return at + bytes <= b.shared_bytes ? reinterpret_cast<char *>(b.shared + at) : nullptr;
}

char *host_address(Warp &w, u32 site, u32 lane, u64 address, u32 bytes, bool write) {
  if (address >= kSharedWindow) return in_window(w, lane, address, bytes, write);
  Range r;
  if (!w.grid->memory->find(address, r) || !r.holds(address, bytes) || (write && !r.writable))
    return nullptr;
  if (r.on_host) w.grid->on_host = true;
  w.cache[site] = r;
  return r.host(address);
}

}  // namespace ckpt::softcuda::vm
