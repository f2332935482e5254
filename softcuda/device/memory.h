// SPDX-License-Identifier: Apache-2.0
//
// All memory that the devices of this process can access.
//
// Two large windows of addresses are reserved. Device addresses lie in the first one, which is
// mapped without any access: a program that uses a device pointer on the host faults, as with a
// real GPU. The bytes lie in the second window, the alias, at the same offset. So one addition
// leads from a device address to its bytes, and a window needs no physical memory for what is not
// allocated.
//
//     device address   0x2000'0020'0000   in the window, PROT_NONE
//     its bytes        0x3000'0020'0000   in the alias, mapped when the memory is allocated
//
// Device memory is taken from a Budget (the broker, which knows the other processes) in granules of
// 2 MiB. Allocations of at most half a granule share granules (cuda/small_blocks.h); larger ones
// are rounded up to whole granules. Reservations of cuMemAddressReserve are cut from the same
// window. Managed, pinned and registered memory is ordinary memory of the host: its device address
// is its host address.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "common/base/result.h"
#include "common/base/spans.h"
#include "common/base/unique_fd.h"
#include "cuda/small_blocks.h"
#include "softcuda/device/populated.h"
#include "softcuda/vm/memory_view.h"

namespace ckpt::softcuda {

inline constexpr u64 kGranuleBytes = 2u << 20;
inline constexpr u64 kFirstAddress = 0x2000'0000'0000;

// Imported: memory that another process has exported (cuIpcOpenMemHandle).
enum class MemoryKind : u8 { Device, Managed, Pinned, Registered, Mapping, Pool, Imported };

struct Allocation {
  u64 base = 0;
  u64 bytes = 0;     // as requested
  u64 reserved = 0;  // rounded up
  MemoryKind kind = MemoryKind::Device;
  u32 device = 0;      // Device, Managed, Mapping, Pool, Imported
  unsigned flags = 0;  // as the program passed them
  u64 host = 0;        // host address of the bytes
  void *context = nullptr;
  u64 id = 0;
  bool exported = false;  // to other processes
  // Mapping only: the devices that may read or write, one bit each, and the physical memory.
  u32 readers = 0;
  u32 writers = 0;
  u64 physical = 0;  // handle
  u64 offset = 0;    // in the physical memory
};

// Device memory as another process maps it: whole granules of a file in memory, and where the
// allocation is in them.
struct SharedPart {
  u64 file_bytes = 0;
  u64 offset = 0;
  u64 bytes = 0;
  u64 reserved = 0;
};

// Memory of devices, shared with other processes. take() returns false when too little is free.
class Budget {
 public:
  virtual ~Budget() = default;
  virtual bool take(u32 device, u64 bytes) = 0;
  virtual void give(u32 device, u64 bytes) = 0;
};

class Memory {
 public:
  // `own_reservations`: each reservation is a mapping of its own, which stays in the process during
  // a checkpoint and is charged as soon as it is writable, as with NVIDIA's driver.
  // `first_address`: where device addresses begin, if there is room.
  explicit Memory(Budget &budget, bool own_reservations = false, u64 first_address = kFirstAddress)
      : budget_(budget), own_reservations_(own_reservations), first_address_(first_address) {}
  // No address of it is used any more. (A program's own memory lives as long as its process.)
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  // Device memory. No value: out of memory.
  std::optional<Allocation> allocate(u32 device, u64 bytes, MemoryKind kind, void *context);
  // Memory of the host. Managed memory also counts against the budget of its device.
  std::optional<Allocation> allocate_host(u64 bytes, MemoryKind kind, u32 device, unsigned flags,
                                          void *context);
  // False: the range overlaps an allocation.
  bool register_host(u64 base, u64 bytes, unsigned flags, void *context);
  // False: `base` is not the beginning of an allocation of this kind.
  bool release(u64 base, MemoryKind kind);
  // Releases everything that belongs to a context, except mappings.
  void release_all(void *context);

  std::optional<Allocation> find(u64 address) const;
  std::vector<Allocation> all() const;
  // Host address of the bytes [address, address + bytes), or nullptr if they are not all allocated.
  char *host(u64 address, u64 bytes) const;
  // Whether this is a device address, allocated or not.
  bool in_window(u64 address) const;
  // Gives the bytes at a host address their pages, if they are of a mapping and many. For a copy
  // that overwrites them.
  void populate(char *host, u64 bytes);

  // Virtual memory management (cuMemAddressReserve, cuMemMap …): addresses without memory, and
  // mappings of physical memory to them. All sizes are multiples of kGranuleBytes.
  std::optional<u64> reserve(u64 bytes, u64 align, u64 at);
  bool unreserve(u64 base, u64 bytes);
  // Whether the range lies in one reservation.
  bool in_one_reservation(u64 base, u64 bytes) const;
  bool map(u64 base, u64 bytes, int memory_fd, u64 offset, u32 device, u64 physical);
  bool unmap(u64 base, u64 bytes);
  bool set_access(u64 base, u64 bytes, u32 device, bool read, bool write);

  // Sharing with other processes. share() moves the bytes of an allocation into a file in memory,
  // together with what shares its granule. The addresses stay the same; the caller makes sure that
  // nothing accesses device memory meanwhile. An allocation is shared at most once.
  Result<std::pair<UniqueFd, SharedPart>> share(u64 base);
  // Called, with the number of the allocation, when shared memory is released.
  std::function<void(u64 id)> on_release_of_exported;
  // Maps what another process shares. No value: the file or the part of it is not what share()
  // makes, or there is no room.
  std::optional<Allocation> import(int memory_fd, const SharedPart &part, u32 device,
                                   void *context);

  // For a checkpoint: copies the contents of all device memory aside, returns the memory to the
  // budget and unmaps the windows; restores all of that at the same addresses. If the budget does
  // not suffice, the restore fails, takes nothing from the budget, and may be tried again.
  Result<> save_device_memory();
  Result<> restore_device_memory();
  // In a forked child: unmaps device memory. Reservations stay, as with NVIDIA's driver. Takes no
  // lock, because a thread that does not exist there may hold it.
  void leave_to_parent();
  // After a restore: maps all mappings of this physical memory again.
  bool remap(u64 physical, int memory_fd);

 private:
  bool open_window();
  bool reopen_window();
  // The parts of the window that are not mapped during a checkpoint, as pairs of begin and end.
  std::vector<std::pair<u64, u64>> closed_parts() const;
  std::optional<u64> take_granules(u32 device, u64 bytes);
  void give_granules(u32 device, u64 base, u64 bytes);
  bool commit(u64 base, u64 bytes);
  bool move_into_file(u64 base, u64 bytes);
  bool map_file(u64 base, u64 bytes, int memory_fd);
  void decommit(u64 base, u64 bytes);
  std::optional<u64> take_small(u32 device, u64 bytes);
  void give_small(const Allocation &a);
  void release_locked(const Allocation &a);
  Allocation &add(Allocation a);

  Budget &budget_;
  const bool own_reservations_;
  const u64 first_address_;
  mutable std::shared_mutex mutex_;
  u64 window_ = 0;
  u64 distance_ = 0;  // from the window to the alias
  Spans free_;
  api::SmallBlocks<u32> small_;                  // granules that hold small allocations, by device
  std::map<u64, UniqueFd> files_;                // of shared granules, by their first address
  std::map<u64, std::pair<u64, u64>> imported_;  // the mapping behind each: begin and bytes
  std::map<u64, u64> reservations_;
  std::map<u64, Allocation> allocations_;
  Populated populated_;  // of the alias
  struct Saved {
    u64 base;
    std::vector<std::byte> bytes;
  };
  std::vector<Saved> saved_;
  u64 next_id_ = 1;
};

}  // namespace ckpt::softcuda
