// SPDX-License-Identifier: Apache-2.0
//
// The addresses of shared virtual memory. Application and proxy map it at the same ones, also the
// proxy that a restore starts, so they lie where the system places nothing by itself: below the
// shared libraries (from 0x7fff… downwards) and programs (0x55…), above the windows of the software
// CUDA device, which begin at 0x2000'0000'0000.
#pragma once

#include "common/base/bytes.h"
#include "libckpt-ocl/reserve.h"

namespace ckpt::ocl {

inline constexpr u64 kSvmBegin = 0x3000'0000'0000, kSvmEnd = 0x4000'0000'0000;

// Whether shared virtual memory may be there: whole pages, within these addresses.
constexpr bool is_for_svm(u64 address, u64 bytes) {
  return address % kPageBytes == 0 && address >= kSvmBegin && address <= kSvmEnd && bytes > 0 &&
         bytes <= kSvmEnd - address;
}

// Reserves exactly these addresses with empty private memory, if nothing is there.
inline bool reserve_at(u64 address, size_t bytes) {
  void *wanted = reinterpret_cast<void *>(address);
  void *p = ::mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (p == wanted) return true;
  if (p != MAP_FAILED) ::munmap(p, bytes);  // a kernel before 4.17 takes it for a hint
  return false;
}

}  // namespace ckpt::ocl
