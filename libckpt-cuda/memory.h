// SPDX-License-Identifier: Apache-2.0
//
// Device memory of cuMemAlloc, by virtual memory management: addresses are reserved once and for
// ever, physical memory comes and goes beneath them. A block is a stretch that is mapped as one:
// an allocation of its own, or, of the granularity's size, many small ones of one context.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/spans.h"
#include "libckpt-cuda/contexts.h"

namespace ckpt::cuda {

inline constexpr u64 kGrainBytes = 512;  // what small allocations are rounded to and aligned at

struct Allocation {
  u64 base = 0;
  u64 bytes = 0;  // as asked for
  u64 block = 0;  // the base of its block
  u64 id = 0;     // never used again
  CUcontext context = nullptr;
  CUdevice device = 0;
  bool excluded = false;  // its contents are not worth keeping
};

// What is saved of a block.
struct Contents {
  std::string region;
  u64 base = 0;
  u64 bytes = 0;
  CUcontext context = nullptr;
};

class Memory {
 public:
  // With `growth`: only out of memory that it has. Otherwise it says there how much it would take
  // from the device, and allocates nothing; 0: it has allocated, or failed.
  CUresult allocate(const ContextInfo &context, u64 bytes, u64 &out, u64 *growth = nullptr);
  // False: no allocation of ours begins there. The device must be done with it.
  // `given`: physical bytes that went back to the device.
  bool release(u64 base, u64 *given = nullptr);
  void release_context(CUcontext context);
  std::optional<Allocation> find(u64 address) const;
  CUresult set_access(CUcontext whose, CUdevice device, bool may);
  bool exclude(u64 base, bool excluded);

  // Mapped, and used by nothing.
  u64 spare_bytes(CUdevice device) const;
  u64 mapped_bytes(CUdevice device) const;
  // Of all blocks, mapped or away.
  u64 held_bytes() const { return held_.load(std::memory_order_relaxed); }

  // A checkpoint. Nothing else may be called between release_devices() and come_back().
  std::vector<Contents> contents() const;
  // Gives all physical memory back; addresses stay reserved.
  void release_devices();
  // Takes as much again, at the same addresses.
  Result<> come_back();

 private:
  u64 growth(const ContextInfo &context, u64 bytes);
  struct Block {
    u64 base = 0;
    u64 bytes = 0;
    ContextInfo context;
    CUmemGenericAllocationHandle physical = 0;
    bool mapped = false;
    bool small = false;
    Spans free;            // of a small one
    u64 largest_free = 0;  // at most
    u64 live = 0;          // allocations in it
  };
  // The blocks of a context with room for small allocations, by the most that each may have.
  using Roomy = std::set<std::pair<u64, u64>>;

  CUresult new_block(const ContextInfo &context, u64 bytes, bool small, Block *&out);
  CUresult map(Block &block);
  void unmap(Block &block);
  void drop_block(Block &block);
  CUresult small_allocation(const ContextInfo &context, u64 bytes, u64 &base, Block *&block);
  void give_back(const Allocation &a);
  void set_room(Block &block, u64 largest);
  CUresult reserve(CUdevice device, u64 bytes, u64 &base);
  u64 granularity(CUdevice device);

  mutable std::mutex mutex_;
  Spans addresses_;  // reserved and not in any block
  std::map<CUdevice, u64> granularity_;
  std::map<u64, std::unique_ptr<Block>> blocks_;
  std::map<u64, Allocation> allocations_;
  std::map<CUcontext, Roomy> roomy_;
  std::map<CUcontext, u64> spare_;  // an empty block of small allocations
  u64 next_id_ = 1;
  std::atomic<u64> held_{0};
};

Memory &memory();

}  // namespace ckpt::cuda
