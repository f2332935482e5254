// SPDX-License-Identifier: Apache-2.0
//
// The program's live memory of cuMemAllocManaged. The driver's checkpoint does not keep it, so it
// blocks a checkpoint. Under ckpt-run --managed-memory=host, page-locked host memory that all
// devices can reach takes its place, and that is kept. Under =kept, paired_memory.h serves all.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "libckpt-cuda/entry/entries.h"

namespace ckpt::cuda {

// Thread-safe.
class ManagedMemory {
 public:
  // ckpt-run --managed-memory=host was given, or =kept.
  static bool wanted_on_host();
  static bool wanted_kept();
  void insert(CUdeviceptr p, u64 bytes, bool on_host);
  // Does nothing where no managed memory begins at `p`.
  void erase(CUdeviceptr p);
  // `p` lies in managed memory that is on the host.
  bool on_host(CUdeviceptr p) const;
  // The sum of what is not on the host.
  u64 driver_bytes() const;

 private:
  struct Range {
    u64 bytes;
    bool on_host;
  };
  mutable std::mutex mutex_;
  // Set by the first insert(). Most programs have no managed memory, and each free asks.
  std::atomic<bool> used_{false};
  std::map<CUdeviceptr, Range> ranges_;
};

// Lives as long as the process.
ManagedMemory &managed_memory();

}  // namespace ckpt::cuda
