// SPDX-License-Identifier: Apache-2.0
//
// Device memory of cuMemAlloc that can be unmapped and mapped again at the same addresses.
//
// The problem. A program stores device addresses in its own variables, on the host and in device
// memory, where they cannot be found and changed. After a checkpoint every allocation must be where
// it was, on this device or on another one. cuMemAlloc chooses the address itself, so memory that
// was freed cannot be allocated again at the same place.
//
// The driver's virtual memory management separates addresses (cuMemAddressReserve) from physical
// memory (cuMemCreate) and joins the two (cuMemMap). We serve cuMemAlloc with it: addresses stay
// reserved for the life of the process, physical memory comes and goes beneath them. But physical
// memory comes in multiples of the granularity, 2 MiB, and to map it takes three driver calls,
// while programs allocate a few KiB and expect that to be quick. Hence three levels:
//
//   window      a reservation of addresses, four times the device's memory; never given back
//   block       a part of a window with physical memory beneath it, mapped as one
//   allocation  what the program gets: a block of its own, or a piece of a block of small ones
//
// Example, with a granularity of 2 MiB: cuMemAlloc(3 MiB), (1 KiB), (5 KiB), in one context.
//
//   window  |         block 1, 4 MiB         |   block 2, 2 MiB   |       free addresses …
//           | allocation of 3 MiB     unused | 1K | 5K |   free   |
//
// The algorithm. An allocation of more than half the granularity gets a block of its own, at the
// first free addresses that suffice (Spans). A smaller one is cut from a block of small ones of the
// same context (cuda/small_blocks.h). A block is dropped with its last allocation, except one
// block of small allocations for each context and some of large ones (kept_blocks.h): a program
// that allocates and frees one buffer in a loop then maps nothing.
//
// A checkpoint saves each block up to its last allocation that is not excluded, unmaps all blocks
// (unmap_all), and has the driver checkpoint
// what else it keeps (driver-checkpoint/driver_checkpoint.h). Afterwards each block is mapped again
// where it was (remap_all). Blocks belong to a context, because an allocation does: it dies with
// its context.
//
// Cost. A small allocation or free: a few tree operations, no driver call. A block: three driver
// calls to make it, two to drop it. To find the allocation of an address: one look-up in a tree. An
// allocation of just over 1 MiB leaves half of its block unused; that is the worst case.
//
// Source. CUDA driver API, section "Virtual Memory Management"; CUDA C++ Programming Guide, chapter
// of the same name.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/small_blocks.h"
#include "libckpt-cuda/memory/block.h"
#include "libckpt-cuda/memory/contexts.h"
#include "libckpt-cuda/memory/kept_blocks.h"
#include "libckpt-cuda/memory/saved_contents.h"

namespace ckpt::cuda {

struct Allocation {
  u64 base = 0;
  u64 bytes = 0;  // as the program asked
  u64 block = 0;  // the base of its block
  u64 id = 0;     // unique in this process
  CUcontext context = nullptr;
  CUdevice device = 0;
  bool excluded = false;  // its contents need not be saved
};

// Thread-safe.
class Memory {
 public:
  // Which devices may access a block: that of its context and those with peer access to it, or
  // every device with a context that can.
  enum class Reach : u8 { Peers, EveryDevice };
  explicit Memory(Reach reach = Reach::Peers) : reach_(reach) {}

  // True: cut from a block that exists, `out` is the address. False: no block has room.
  bool allocate_from_blocks(const ContextInfo &context, u64 bytes, u64 &out);
  // Bytes of device memory that a new block for `bytes` takes.
  u64 bytes_to_reserve(const ContextInfo &context, u64 bytes);
  // From a block that exists, or else from a new one.
  CUresult allocate(const ContextInfo &context, u64 bytes, u64 &out);
  // Bytes of device memory that became free; 0 also where no allocation begins at `base`. The
  // device must have finished all work that uses the allocation.
  u64 release(u64 base);
  void release_context(CUcontext context);
  // The allocation that `address` lies in.
  std::optional<Allocation> find(u64 address) const;
  // The block of which `base` is the only allocation; 0: there are others, or no such allocation.
  u64 block_of_only(u64 base) const;
  // The size of the block that begins at `base`; 0: none does.
  u64 bytes_of_block(u64 base) const;
  // A first context of `device` was made: with EveryDevice, it gets access where it can have it.
  CUresult reach_from(CUdevice device);
  // Gives `device` access to all blocks of the context `owner`, or takes it back.
  CUresult set_access(CUcontext owner, CUdevice device, bool allowed);
  // False: no allocation begins at `base`.
  bool exclude(u64 base, bool excluded);

  // From now on no block of a large allocation is kept: another one accounts for device memory.
  void keep_no_blocks() { keeps_blocks_ = false; }
  // Memory is short: frees the blocks that are kept without an allocation. False: there were none.
  bool drop_kept();

  // Bytes in blocks without an allocation.
  u64 spare_bytes(CUdevice device) const;
  // Bytes of all blocks, mapped or not.
  u64 block_bytes(CUdevice device) const;
  u64 block_bytes() const { return block_bytes_.load(std::memory_order_relaxed); }

  struct BlockView {
    u64 base = 0, bytes = 0;
    Physical physical = 0;
    CUcontext context = nullptr;
    bool mapped = false;
  };
  // Calls `look` with the block that begins at `base`, which is not freed meanwhile. Does nothing
  // where none begins.
  void with_block(u64 base, const std::function<void(const BlockView &)> &look) const;
  std::vector<BlockView> views() const;

  // For a checkpoint. Between unmap_all() and remap_all() nothing else may be called.
  std::vector<Contents> contents() const;
  // Of all blocks with an allocation. Their names are their addresses.
  std::vector<KeyedPhysical> physical() const;
  // Gives all physical memory back, and blocks without an allocation with their addresses. A
  // failure leaves those mapped that the driver did not unmap.
  Result<> unmap_all();
  // Maps every block again, at its address. A failure leaves those mapped that were done.
  Result<> remap_all();

 private:
  struct Owned : Block {
    ContextInfo context;
    bool small = false;  // for small allocations
    u64 live = 0;        // the number of its allocations
  };

  bool is_small(const ContextInfo &context, u64 bytes);
  Owned *cut_from_blocks(const ContextInfo &context, u64 bytes, u64 &out);
  CUresult allocate_in_new_block(const ContextInfo &context, u64 bytes, u64 &out);
  CUresult new_block(const ContextInfo &context, u64 bytes, bool small, Owned *&out);
  void record(Owned &block, u64 base, u64 bytes);
  AccessList access_to(const Owned &block) const;
  void drop(Owned &block);
  void free_piece(const Allocation &a);
  bool reuse_kept(const ContextInfo &context, u64 bytes, Owned *&out);
  void keep_or_drop(Owned &block);
  u64 most_kept(CUdevice device);
  bool drop_kept_blocks();
  bool has_other_spare(const Owned &block);

  const Reach reach_;
  mutable std::mutex mutex_;
  std::map<u64, std::unique_ptr<Owned>> blocks_;
  std::map<u64, Allocation> allocations_;
  api::SmallBlocks<CUcontext> small_;
  KeptBlocks kept_;
  std::map<CUdevice, u64> most_kept_;
  std::atomic<bool> keeps_blocks_{true};
  std::map<CUcontext, u64> spare_;  // the block of small allocations that is kept empty
  std::atomic<u64> block_bytes_{0};
};

// Lives as long as the process.
Memory &memory();

}  // namespace ckpt::cuda
