// SPDX-License-Identifier: Apache-2.0
//
// A CUDA driver that only keeps account: reservations, physical memory with one word a granule,
// mappings with their access, events. Any call about memory can be made to fail.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "libckpt-cuda/entry/driver.h"

namespace ckpt::cuda::fake {

inline constexpr u64 kGranule = 2u << 20;
inline constexpr int kDevices = 2;

struct PhysicalMemory {
  CUdevice device = 0;
  unsigned handles = 1, mappings = 0;
  std::vector<u64> words;  // one a granule
};
struct MappedRange {
  u64 bytes = 0, offset = 0;
  u64 physical = 0;
  CUmemAccess_flags access[kDevices] = {};
};
struct EventState {
  bool happened = false;
  std::set<CUstream> waiting;  // streams whose later work comes after it
};

struct State {
  std::map<u64, u64> reservations;
  std::map<u64, PhysicalMemory> physicals;
  std::map<u64, MappedRange> mappings;
  std::map<CUevent, EventState> events;
  CUevent last_event = nullptr;  // that was recorded
  u64 next = 1, next_address = u64{1} << 40;
  u64 free_granules = ~u64{0};
  // The number of calls about memory that succeed before one fails; none: all succeed.
  std::optional<unsigned> fail_after;
  bool idle = false;  // all events have happened
  bool capturing = false;

  // Where the word of the granule at `address` is; null: not mapped.
  u64 *word(u64 address);
};
// Forgets everything but reservations, because the library keeps those.
void reset();
State &state();

}  // namespace ckpt::cuda::fake
