// SPDX-License-Identifier: Apache-2.0
//
// All memory that the process's devices can reach. Addresses of device memory lie in a window that
// is mapped without any access, so that a program that uses one on the host faults, as with a real
// GPU; the bytes lie at the same offset in a second one, the alias. Managed and pinned memory is
// ordinary memory of the host, whose device address is its own.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "common/base/result.h"
#include "common/base/spans.h"
#include "softcuda/vm/memory_view.h"

namespace ckpt::softcuda {

inline constexpr u64 kChunkBytes = 2u << 20;  // what a device gives out its memory in
inline constexpr u64 kGrainBytes = 512;       // what small allocations are rounded to

enum class MemoryKind : u8 { Device, Managed, Pinned, Registered, Mapping, Pool };

struct Allocation {
  u64 base = 0;
  u64 bytes = 0;     // as asked for
  u64 reserved = 0;  // rounded
  MemoryKind kind = MemoryKind::Device;
  u32 device = 0;      // Device, Managed, Mapping, Pool
  unsigned flags = 0;  // as the program gave them
  u64 host = 0;        // where the bytes lie
  void *context = nullptr;
  u64 id = 0;
  u32 readers = 0;  // Mapping: devices that may read or write, one bit each
  u32 writers = 0;
  u64 physical = 0;  // Mapping: the handle …
  u64 offset = 0;    // … and where in it
};

// Who gives memory of a device, and takes it back: the broker, which knows all processes.
class Budget {
 public:
  virtual ~Budget() = default;
  virtual bool take(u32 device, u64 bytes) = 0;
  virtual void give(u32 device, u64 bytes) = 0;
};

class Memory {
 public:
  explicit Memory(Budget &budget) : budget_(budget) {}

  // Device memory; no value: out of memory.
  std::optional<Allocation> allocate(u32 device, u64 bytes, MemoryKind kind, void *context);
  // Memory of the host. Managed memory counts for its device.
  std::optional<Allocation> allocate_host(u64 bytes, MemoryKind kind, u32 device, unsigned flags,
                                          void *context);
  bool register_host(u64 base, u64 bytes, unsigned flags, void *context);
  // False: that is not the beginning of an allocation of this kind.
  bool release(u64 base, MemoryKind kind);
  // Everything of a context that is going.
  void release_all(void *context);

  std::optional<Allocation> find(u64 address) const;
  std::vector<Allocation> all() const;
  // The bytes of [address, +bytes) on the host, or nullptr if that is no memory of ours.
  char *host(u64 address, u64 bytes) const;
  // Is this an address of device memory, whether or not there is any?
  bool in_window(u64 address) const;

  // Virtual memory management: addresses without memory, and memory for them.
  std::optional<u64> reserve(u64 bytes, u64 align, u64 at);
  bool unreserve(u64 base, u64 bytes);
  bool map(u64 base, u64 bytes, int memory_fd, u64 offset, u32 device, u64 physical);
  bool unmap(u64 base, u64 bytes);
  bool set_access(u64 base, u64 bytes, u32 device, bool read, bool write);

  // A checkpoint: takes the bytes of all device memory away and puts them back at the same place.
  // While they are away the memory is given back to the budget.
  Result<> drop_device_memory();
  Result<> restore_device_memory();
  // Behind a restore: maps what lies in this physical memory again.
  bool map_again(u64 physical, int memory_fd);

 private:
  struct Chunk {
    u32 device;
    Spans free;
  };
  bool open_window();
  bool reopen_window();
  std::optional<u64> take_chunks(u32 device, u64 bytes);
  void give_chunks(u32 device, u64 base, u64 bytes);
  bool back(u64 base, u64 bytes);
  void unback(u64 base, u64 bytes);
  std::optional<u64> take_small(u32 device, u64 bytes);
  void give_small(u64 base, u64 bytes);
  void release_locked(const Allocation &a);
  Allocation &add(Allocation a);

  Budget &budget_;
  mutable std::shared_mutex mutex_;
  u64 window_ = 0;
  u64 distance_ = 0;  // from the window to the alias
  Spans free_;
  std::map<u64, Chunk> small_;  // chunks that hold small allocations
  std::map<u64, u64> reservations_;
  std::map<u64, Allocation> allocations_;
  struct Kept {
    u64 base;
    std::vector<std::byte> bytes;
  };
  std::vector<Kept> kept_;
  u64 next_id_ = 1;
};

}  // namespace ckpt::softcuda
