// SPDX-License-Identifier: Apache-2.0
//
// Device memory of the program. Addresses are cut from one arena, which is reserved here, without
// access, as well as on the device: so an address of the device is none of the host's, and a
// program that follows one faults. Only memory that both share (shared_memory.h) has pages of the
// host there, too. Physical memory is put behind blocks of 2 MiB. Allocations of at most half a
// block share blocks, so most of them cost no round trip.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "common/base/result.h"
#include "common/base/spans.h"
#include "cuda/small_blocks.h"
#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

// What the host has of an allocation.
enum class Sharing : u8 {
  None,
  Managed,  // managed memory, at the same address
  Mapped,   // page-locked memory, at the same address
  Apart,    // page-locked memory, elsewhere
};
// Why there is none beside split devices (site.h).
inline constexpr const char *kNotSplit =
    "managed and mapped memory only works while all devices of the program are of one node";
inline bool is_at_same_address(Sharing s) { return s == Sharing::Managed || s == Sharing::Mapped; }

struct Allocation {
  u64 base = 0, bytes = 0;
  u64 context = 0;
  CUdevice device = 0;
  u64 id = 0;
  // The code that the variable belongs to, or the physical memory that is mapped there
  // (virtual_memory.h); 0: memory of the arena.
  u64 owner = 0;
  bool excluded = false;  // its contents need not be saved
  Sharing sharing = Sharing::None;
  bool writable = true;  // the device may read and write it
};

class Memory {
 public:
  CUresult allocate(u64 context, u64 bytes, u64 &out, Sharing sharing = Sharing::None);
  // The work that may use it has ended. False: no allocation of the arena begins there.
  bool release(u64 base);
  // Of a context that has ended.
  void release_all(u64 context);
  // The bytes of the arena that an allocation takes.
  static u64 reserved(u64 bytes);
  // A part of the arena for the variables of the code `owner`, and one behind it for those that are
  // managed. `context`: 0 if they are of none yet.
  CUresult allocate_for_code(u64 owner, u64 bytes, u64 managed_bytes, CUdevice device, u64 context,
                             u64 &base);
  void release_of_code(u64 owner);
  void set_context_of_code(u64 owner, u64 context);
  // The addresses of the handle table (handle_table.h), and a part of it with memory behind it, for
  // objects of a device.
  CUresult handle_range(u64 &base);
  CUresult map_cells(CUdevice device, u64 &base);
  static constexpr u64 kHandleBytes = 64u << 20, kCellBlockBytes = 2u << 20;
  // A variable of the code `owner`, of which the program has got the address.
  void add_placed(u64 base, u64 bytes, u64 context, u64 owner, Sharing sharing);
  void forget_of(u64 owner);

  // Addresses for the program's own mappings: at `wanted`, if that is free.
  CUresult reserve(u64 bytes, u64 align, u64 wanted, u64 &base);
  void give_reserved(u64 base, u64 bytes);
  // What the program has mapped there.
  void add_mapped(u64 base, u64 bytes, CUdevice device, u64 physical);
  void set_mapped_access(u64 base, bool writable);
  void forget_mapped(u64 base);
  static constexpr u64 kGranularity = 2u << 20;  // of physical memory, on today's devices

  std::optional<Allocation> find(u64 address) const;
  // Whether the device may read and write these bytes, which are of one allocation, or of mapped
  // memory.
  bool holds(u64 address, u64 bytes) const;
  // Whether the address is of the arena, or of an allocation.
  bool is_device(u64 address) const;
  // False: no allocation begins there.
  bool exclude(u64 base, bool excluded);

  // The parts of the arena with physical memory behind them.
  struct Block {
    u64 base, bytes;
    u64 context;  // 0: variables of a library that no context has used, or cells
    CUdevice device;
    bool excluded;
  };
  std::vector<Block> blocks() const;
  // Whether all of these bytes are in blocks or in mapped memory.
  bool maps(u64 address, u64 bytes) const;
  // On another server: reserves the arena at the same addresses, and maps the blocks.
  Result<> make_again();
  // Whether pages of the host lie in the arena.
  bool has_host_pages() const { return host_pages_ > 0; }
  // Before a driver of this process reserves the arena: its addresses become free here. Afterwards
  // the driver has reserved it, or it is reserved here again.
  void free_addresses();
  void keep_addresses();

 private:
  CUresult open_arena();
  CUresult take_addresses(u64 bytes, u64 &base);
  CUresult map_block(u64 bytes, CUdevice device, Sharing sharing, u64 &base);
  CUresult map_at(u64 base, u64 bytes, CUdevice device, Sharing sharing);
  CUresult share_block(u64 base, u64 bytes);
  void unmap_block(u64 base, u64 bytes, CUdevice device, Sharing sharing);
  CUresult take_small(u64 context, CUdevice device, u64 bytes, Sharing sharing, u64 &base);
  void give(const Allocation &a);

  mutable std::mutex mutex_;
  CUresult reserve(u64 base, u64 bytes, u64 &got);
  CUresult reserve_at(const Site &site, u64 base, u64 bytes, u64 &got);
  bool is_drivers() const;

  u64 arena_ = 0, arena_bytes_ = 0;  // the handle table is at its beginning
  std::atomic<u64> host_pages_{0};   // blocks of the arena with pages of the host
  Spans free_;                       // of the arena
  std::vector<Block> cells_;
  // Blocks with small allocations, by context.
  api::SmallBlocks<std::pair<u64, Sharing>> small_;
  std::map<u64, Allocation> all_;
  std::map<u64, std::vector<Block>> of_code_;  // by owner
  u64 last_id_ = 0;
};

Memory &memory();

// Waits for the work of the context. Memory can be given back then: kernels could use it in any
// stream.
CUresult settle(u64 context);

}  // namespace ckpt::remote::cuda
