// SPDX-License-Identifier: Apache-2.0
//
// The device addresses of one program: the arena, the physical memory behind its parts, and what
// the driver has placed elsewhere (variables of modules). The program says
// which addresses it means, so each one is checked here: a driver with one space of addresses for
// host and devices would otherwise copy from and to this process's own memory.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "remote/cuda/server/driver.h"

namespace ckpt::remote::cuda {

struct Arena {
  u64 base = 0, bytes = 0;
};

class DeviceMemory {
 public:
  static constexpr u64 kMostBytes = 1ull << 46;  // of one range

  // Asks for `change` more bytes; negative: gives them back. False: the user's limit is reached.
  using Ask = std::function<bool(i64 change)>;
  // `kept`: an arena that is reserved already, and stays so.
  explicit DeviceMemory(Ask ask, Arena kept = {}) : ask_(std::move(ask)), kept_(kept) {}

  // Reserves the arena, at `base` unless that is 0. Again only as long as no part is mapped.
  CUresult reserve(u64 base, u64 bytes, u64 &got);
  CUresult map(u64 base, u64 bytes, CUdevice device);
  CUresult unmap(u64 base, u64 bytes);
  void unmap_all();

  // Physical memory of the program's own (cuMemCreate), by its number, and parts of the arena that
  // it is mapped to. It counts until it has ended, and cannot end while it is mapped.
  CUresult make_physical(u64 number, u64 bytes, CUdevice device);
  CUresult end_physical(u64 number);
  CUresult map_physical(u64 base, u64 bytes, u64 number);
  // The range is a sequence of whole parts, of such memory only.
  CUresult unmap_physical(u64 base, u64 bytes);
  CUresult set_access(u64 base, u64 bytes, CUdevice device, u32 flags);

  // A variable. `owner`: the number of the code that it belongs to.
  void add(u64 base, u64 bytes, u64 owner);
  void forget_of(u64 owner);
  // Memory of the program at this address, which the device reaches, and no longer.
  void add_shared(u64 base, u64 bytes) { add(base, bytes, 0); }
  void forget_shared(u64 base);
  // Whether all of these bytes are the program's device memory.
  bool holds(u64 address, u64 bytes) const;
  // Whether they are all in mapped parts of the arena.
  bool maps(u64 address, u64 bytes) const;
  // Calls `use` if so; meanwhile no part is unmapped.
  template <class Use>
  CUresult while_mapped(u64 address, u64 bytes, Use use) const {
    if (bytes > kMostBytes || address > UINT64_MAX - bytes) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(mutex_);
    return maps_locked(address, bytes) ? use() : CUDA_ERROR_INVALID_VALUE;
  }

 private:
  struct Part {
    u64 bytes;
    u64 physical;  // its number; 0: memory of this part alone
  };
  struct Physical {
    CUmemGenericAllocationHandle handle;
    u64 bytes;
    u64 parts;  // that it is mapped to
  };
  struct Placed {
    u64 bytes;
    u64 owner;
  };
  void give_back(u64 bytes) { (void)ask_(-static_cast<i64>(bytes)); }
  CUresult map_new(u64 base, u64 bytes, CUdevice device);
  bool is_free(u64 base, u64 bytes) const;
  bool are_whole_parts(u64 base, u64 bytes) const;
  bool maps_locked(u64 address, u64 bytes) const;
  bool in_arena(u64 base, u64 bytes) const;

  Ask ask_;
  Arena kept_;
  mutable std::mutex mutex_;
  u64 arena_ = 0, arena_bytes_ = 0;
  std::map<u64, Part> mapped_;  // parts of the arena, by base
  std::map<u64, Physical> physical_;
  std::map<u64, Placed> placed_;
};

}  // namespace ckpt::remote::cuda
