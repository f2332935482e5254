// SPDX-License-Identifier: Apache-2.0
//
// Physical memory that the program makes itself (cuMemCreate) and maps where it likes (cuMemMap).
//
// The problem. PyTorch's expandable segments and JAX's allocator reserve a large range of addresses
// and map physical memory into it piece by piece. Left to the driver's checkpoint, that memory is
// copied several times slower than ours. So it must be saved, given back and made anew like a block
// (block.h); but the program holds the handle of the physical memory, which a new piece of physical
// memory cannot have.
//
// How it works. The program gets handles of ours, and every entry that takes one translates it. For
// each piece of physical memory we know its handle at the driver, and for each mapping its piece,
// the part of it, and the access that was set:
//
//   program's addresses    | mapping 1 |     | mapping 2 | mapping 3 |
//                                |                 |           |
//   physical memory        piece 7: driver's handle 3     piece 8: driver's handle 4
//
// A checkpoint copies whole pieces through a mapping of ours (reachable.h), because the program may
// have mapped a piece never, twice, in part, or without access. Then all mappings are undone and
// all pieces given back (unmap_all); afterwards each piece is made anew and mapped where it was,
// with the same access (remap_all). The reservations are the program's and stay.
//
// As with the driver, a piece lives as long as the program has a handle of it or a mapping. The
// driver's handle is held all that time, even if the program has released its own.
//
// Only pinned memory of a device, without compression and without a special use, is ours. A piece
// that is bound to an array is left to the driver from then on, because tiles of arrays cannot be
// found and bound again: its handle is still translated, but it is neither saved nor given back.
//
// Source. CUDA driver API, section "Virtual Memory Management".
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "libckpt-cuda/memory/physical.h"

namespace ckpt::cuda {

// The program's handle of a piece. No driver's handle is a number like these: its handles are
// addresses or count from 1.
using Handle = CUmemGenericAllocationHandle;
inline constexpr Handle kFirstHandle = u64{0xc4b7} << 48;
inline constexpr bool is_ours(Handle handle) { return handle >> 48 == kFirstHandle >> 48; }

// Thread-safe. The functions that are named like entries behave like them.
class ProgramMemory {
 public:
  // Whether memory with these properties is ours; otherwise it is the driver's.
  static bool serves(const CUmemAllocationProp &prop);

  CUresult create(u64 bytes, const CUmemAllocationProp &prop, Handle &out);
  // `freed`: bytes of device memory that became free.
  CUresult release(Handle handle, u64 &freed);
  CUresult map(u64 at, u64 bytes, u64 offset, Handle handle, unsigned long long flags);
  CUresult unmap(u64 at, u64 bytes, u64 &freed);
  CUresult set_access(u64 at, u64 bytes, std::span<const CUmemAccessDesc> access);
  // False: no piece of ours is mapped at `address`.
  bool retain(u64 address, Handle &out);
  // The driver's handle; 0: the program's handle is not valid.
  Physical real(Handle handle);
  // The kinds of shareable handles that the program has asked for. No value: the program's handle
  // is not valid.
  std::optional<CUmemAllocationHandleType> asked_types(Handle handle);
  // The driver's checkpoint keeps it from now on.
  void leave_to_driver(Handle handle);
  // The program's reservations: one call of the driver unmaps no more than one of them.
  void reserved(u64 base);
  // False: none begins there.
  bool unreserved(u64 base);

  // Bytes of all pieces.
  u64 bytes(CUdevice device) const;
  u64 bytes() const { return bytes_.load(std::memory_order_relaxed); }

  // For a checkpoint. Between unmap_all() and remap_all() nothing else may be called.
  struct Whole {
    std::string region;  // its name in the image
    u64 bytes = 0;
    CUdevice device = 0;
    Physical physical = 0;
    Handle handle = 0;
  };
  std::vector<Whole> wholes() const;
  // A failure leaves those mapped that the driver did not unmap.
  Result<> unmap_all();
  Result<> remap_all();

 private:
  struct Piece {
    Physical physical = 0;  // 0: given back
    u64 bytes = 0;
    CUmemAllocationProp prop{};
    u64 handles = 1;   // of the program
    u64 mappings = 0;  // and calls in progress
    bool drivers = false;
  };
  struct Mapping {
    u64 bytes = 0;
    u64 offset = 0;
    Handle handle = 0;
    AccessList access;
    bool mapped = true;
  };
  using Mappings = std::map<u64, Mapping>;

  Piece *valid(Handle handle);
  void drop_if_unused(Handle handle, Physical &unused, u64 &freed);
  void end_mapping(Handle handle, u64 &freed);
  Mappings take_out(u64 at, u64 bytes);
  u64 reservation_of(u64 at) const;
  bool ours(const Mapping &m) const { return !pieces_.at(m.handle).drivers; }
  void unmap_adjacent();
  CUresult map_again(u64 at, Mapping &m);

  mutable std::mutex mutex_;
  std::map<Handle, Piece> pieces_;
  Mappings mappings_;  // by address
  std::set<u64> reservations_;
  Handle next_ = kFirstHandle + 1;
  std::atomic<u64> bytes_{0};
};

// Lives as long as the process.
ProgramMemory &program_memory();

}  // namespace ckpt::cuda
