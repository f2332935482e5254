// SPDX-License-Identifier: Apache-2.0
//
// A look at the contents of device memory, on the devices and before anything is copied. A device
// reads its memory much faster than the bus carries it, so a chunk need not cross the bus to learn
// that it is all zeros, or that an image has it already.
//
// The kernel reads the addresses of Reachable (memory/reachable.h), as copies do: for memory of the
// program's own cuMemCreate a mapping of ours, since the program's may have no access, and a kernel
// that reads memory without access ends its context. The blocks of cuMemAlloc and of pools are read
// where they are, which needs no further addresses: their own device always has access. A block is
// made with it (Memory::access_to(), new_pool() in pools.cc), no entry takes it away
// (cuCtxDisablePeerAccess is for other devices, the driver refuses cuMemPoolSetAccess of the pool's
// own device), and the entries of virtual memory refuse addresses of ours (is_no_mapping()).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libckpt-cuda/memory/saved_contents.h"
#include "libckpt-cuda/survey/looker.h"

namespace ckpt::cuda {

struct Survey {
  // Of each of the contents, its first chunks. Those that are missing were not looked at: the end
  // of contents where it is too short, and all of them where the device could not look.
  std::vector<std::vector<Seen>> seen;
  // Why a device could not look, one sentence each.
  std::vector<std::string> not_looked;

  // Null: chunk `chunk` of contents `i` was not looked at.
  const Seen *at(size_t i, u64 chunk) const {
    return i < seen.size() && chunk < seen[i].size() ? &seen[i][chunk] : nullptr;
  }
};

using MakeLooker = std::function<std::unique_ptr<Looker>(CUcontext)>;

// `make` makes the looker for a device from a context on it. Without `hash` only zeros are looked
// for. The devices must be idle.
Survey look_at(const std::vector<Contents> &all, u64 seed, bool hash, const MakeLooker &make);

}  // namespace ckpt::cuda
