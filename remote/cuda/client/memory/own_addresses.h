// SPDX-License-Identifier: Apache-2.0
//
// Addresses of the program's own process, for memory that is a device's.
#pragma once

#include <sys/mman.h>

#include "common/base/bytes.h"

namespace ckpt::remote::cuda {

inline void *pages(u64 base) { return reinterpret_cast<void *>(base); }

// Reserves addresses of this process; at `base`, or anywhere if that is 0. 0: they are in use.
inline u64 reserve_here(u64 base, u64 bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *p = ::mmap(reinterpret_cast<void *>(base), bytes, PROT_NONE,
                   base ? kFlags | MAP_FIXED_NOREPLACE : kFlags, -1, 0);
  return p == MAP_FAILED ? 0 : reinterpret_cast<u64>(p);
}

// Memory of this process in a reserved range, or none again.
inline bool change_here(u64 base, u64 bytes, bool memory) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  int access = memory ? PROT_READ | PROT_WRITE : PROT_NONE;
  return ::mmap(reinterpret_cast<void *>(base), bytes, access, kFlags, -1, 0) != MAP_FAILED;
}

}  // namespace ckpt::remote::cuda
