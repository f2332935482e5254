// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "common/base/huge_pages.h"

namespace ckpt::ocl {

inline constexpr size_t kPageBytes = 4096;

// Reserves addresses for `bytes` bytes with empty private memory, at a multiple of the huge page if
// there is room for one. nullptr: there are none, and errno says why.
inline std::byte *reserve(size_t bytes) {
  bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  size_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : kPageBytes;
  void *p = ::mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto *all = static_cast<std::byte *>(p);
  size_t before = -reinterpret_cast<uintptr_t>(p) % alignment;
  if (before > 0) ::munmap(all, before);
  ::munmap(all + before + bytes, alignment - before);
  return all + before;
}

}  // namespace ckpt::ocl
