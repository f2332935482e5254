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
  // Asks for `change` more bytes; negative: gives them back. False: the user's limit is reached.
  using Ask = std::function<bool(i64 change)>;
  // `kept`: an arena that is reserved already, and stays so.
  explicit DeviceMemory(Ask ask, Arena kept = {}) : ask_(std::move(ask)), kept_(kept) {}

  // Reserves the arena, at `base` unless that is 0. Again only as long as no part is mapped.
  CUresult reserve(u64 base, u64 bytes, u64 &got);
  CUresult map(u64 base, u64 bytes, CUdevice device);
  CUresult unmap(u64 base, u64 bytes);
  void unmap_all();

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

 private:
  struct Placed {
    u64 bytes;
    u64 owner;
  };
  void give_back(u64 bytes) { (void)ask_(-static_cast<i64>(bytes)); }
  CUresult map_physical(u64 base, u64 bytes, CUdevice device);
  bool maps_locked(u64 address, u64 bytes) const;
  bool in_arena(u64 base, u64 bytes) const;

  Ask ask_;
  Arena kept_;
  mutable std::mutex mutex_;
  u64 arena_ = 0, arena_bytes_ = 0;
  std::map<u64, u64> mapped_;  // parts of the arena: base and bytes
  std::map<u64, Placed> placed_;
};

}  // namespace ckpt::remote::cuda
