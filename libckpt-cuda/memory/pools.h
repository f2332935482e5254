// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered memory (cuMemAllocAsync) that can be given back and made anew like a block.
//
// The problem. Memory of the driver's pools is kept by the driver's checkpoint, which copies it
// several times slower than ours. cudaMallocAsync takes memory from a pool, and so do CuPy and RMM.
//
// How it works. Large allocations (kLeastPoolBytes) come from blocks of ours, one each. All others
// stay the driver's, as do those that a capture turns into nodes of a graph. A pool's handle is the
// driver's own. Beside the driver's pool stands one of ours, with the same access and attributes:
//
//   cuMemAllocAsync(4 KiB) -> the driver's pool          cuMemPoolSetAccess -> both
//   cuMemAllocAsync(8 MiB) -> our pool, same handle      cuMemPoolGetAttribute -> the sum of both
//
// Order. A free gives the block back to its pool with an event (freed_blocks.h). An allocation
// takes the first of these that there is:
//
//   a block whose event has happened (REUSE_ALLOW_OPPORTUNISTIC, or in the same stream)
//   a block that was freed in the same stream, which waits for the event in stream order
//   a new block
//   a block that was freed in another stream, for which the allocation's stream then waits
//   (REUSE_ALLOW_INTERNAL_DEPENDENCIES)
//
// Blocks without an allocation are kept up to the pool's release threshold, as by the driver. The
// driver frees the rest at the next synchronisation. We do not see these calls: it counts as free,
// and is freed at the next free and when memory is short. A few stay beyond the threshold, for
// loops (kept_blocks.h). Questions about sizes free nothing, because to unmap may wait for running
// work.
//
// Source. CUDA driver API, section "Stream Ordered Memory Allocator"; CUDA C++ Programming Guide,
// chapter of the same name.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "libckpt-cuda/memory/freed_blocks.h"
#include "libckpt-cuda/memory/saved_contents.h"

namespace ckpt::cuda {

// A block for a smaller allocation would be mostly unused.
inline constexpr u64 kLeastPoolBytes = 1 << 20;

// Thread-safe.
class Pools {
 public:
  struct Allocation {
    u64 base = 0;
    u64 bytes = 0;  // as the program asked
    u64 id = 0;
    CUmemoryPool pool = nullptr;  // null: it was destroyed
    CUdevice device = 0;
  };
  struct Pool;

  void created(CUmemoryPool handle, const CUmemPoolProps &props);
  // `pool`: what find_pool() returned before the driver destroyed it. Another one may have the
  // handle now. Returns the bytes of device memory that became free.
  u64 destroyed(CUmemoryPool handle, const std::shared_ptr<Pool> &pool);
  // Null: all of this pool is the driver's.
  std::shared_ptr<Pool> find_pool(CUmemoryPool handle);

  // Bytes of device memory that a new block for `bytes` takes.
  static u64 bytes_to_reserve(const Pool &pool, u64 bytes);
  // False: no block that was freed will do.
  bool allocate_from_freed(const std::shared_ptr<Pool> &pool, u64 bytes, const StreamPlace &place,
                           u64 &out);
  CUresult allocate(const std::shared_ptr<Pool> &pool, u64 bytes, const StreamPlace &place,
                    u64 &out);
  // No value: no allocation begins at `base`. `place` null: all work that uses it has finished.
  // `freed`: bytes of device memory that became free.
  std::optional<CUresult> release(u64 base, const StreamPlace *place, u64 &freed);
  // The allocation that `address` lies in.
  std::optional<Allocation> find(u64 address) const;
  // False: no allocation begins at `base`.
  bool exclude(u64 base, bool excluded);
  void context_destroyed(CUcontext context);

  // The driver has done it to its pool.
  CUresult set_access(Pool &pool, std::span<const CUmemAccessDesc> access);
  void set_attribute(Pool &pool, CUmemPool_attribute attribute, const void *value);
  // Adds our share to the driver's answer.
  void add_to_attribute(Pool &pool, CUmemPool_attribute attribute, void *value) const;
  // Frees blocks while at least `keep` bytes stay reserved, together with the `drivers` of the
  // driver's pool. Returns those of ours.
  u64 trim(Pool &pool, u64 keep, u64 drivers, u64 &freed);

  // From now on only the release threshold counts: another one accounts for device memory.
  void keep_no_blocks() { keeps_blocks_ = false; }
  // Memory is short: frees all blocks that no work uses. Returns their bytes.
  u64 drop_freed();
  // Bytes of those beyond the thresholds, which the driver would have freed.
  u64 spare_bytes(CUdevice device) const;

  // Bytes of all blocks, mapped or not.
  u64 bytes(CUdevice device) const;
  u64 bytes() const { return bytes_.load(std::memory_order_relaxed); }

  // For a checkpoint, as in memory.h.
  std::vector<Contents> contents() const;
  std::vector<KeyedPhysical> physical() const;
  Result<> unmap_all();
  Result<> remap_all();

 private:
  struct Live {
    Block block;
    u64 bytes = 0;  // as the program asked
    u64 id = 0;
    bool excluded = false;
    std::shared_ptr<Pool> pool;
  };
  using Blocks = std::vector<Block>;

  static std::shared_ptr<Pool> default_pool(CUmemoryPool handle);
  void hand_out(const std::shared_ptr<Pool> &pool, const Block &block, u64 bytes, u64 &out);
  CUresult make(Pool &pool, u64 bytes, Block &block);
  u64 most_reserved(const Pool &pool) const;
  static void collect(Pool &pool, u64 most, Blocks &out);
  void collect_destroyed(Blocks &out);
  static u64 spare_bytes(Pool &pool);
  u64 drop(const Blocks &blocks);
  void drop_unmapped();
  template <class F>
  void for_each(F f) const;

  mutable std::mutex mutex_;
  std::map<CUmemoryPool, std::shared_ptr<Pool>> pools_;  // null: all of it is the driver's
  std::vector<std::shared_ptr<Pool>> destroyed_;         // that have blocks
  std::map<u64, Live> live_;                             // by address
  std::atomic<bool> keeps_blocks_{true};
  std::atomic<u64> bytes_{0};
};

struct Pools::Pool {
  CUmemoryPool handle = nullptr;  // null: destroyed
  CUdevice device = 0;
  AccessList access;
  u64 threshold = 0;
  bool opportunistic = true, internal = true;
  u64 used = 0, used_high = 0;          // by allocations
  u64 reserved = 0, reserved_high = 0;  // in blocks
  FreedBlocks freed;
};

// Lives as long as the process.
Pools &pools();

}  // namespace ckpt::cuda
