// SPDX-License-Identifier: Apache-2.0
//
// The two windows of addresses that memory.h describes.
#pragma once

#include <sys/mman.h>

#include "softcuda/device/memory.h"

namespace ckpt::softcuda {

inline constexpr u64 kWindowBytes = 8ull << 40;

inline void *pointer(u64 address) { return reinterpret_cast<void *>(address); }

// Addresses without access. Linux charges such a mapping only when it becomes writable, and with
// MAP_NORESERVE not even then.
inline bool map_without_access(u64 at, u64 bytes, int flags) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  return mmap(pointer(at), bytes, PROT_NONE, kFlags | flags, -1, 0) != MAP_FAILED;
}

}  // namespace ckpt::softcuda
