// SPDX-License-Identifier: Apache-2.0
//
// How a kernel sees memory. Device addresses are numbers in a window that the host cannot touch;
// the bytes lie elsewhere, at a distance that a Range tells.
#pragma once

#include "common/base/bytes.h"

namespace ckpt::softcuda::vm {

// Generic addresses of what is no memory of the device. None of them is an address of the host
// (x86-64 has 47 bits of those).
inline constexpr u64 kSharedWindow = 0x00f1'0000'0000'0000;
inline constexpr u64 kLocalWindow = 0x00f2'0000'0000'0000;
inline constexpr u64 kParamWindow = 0x00f3'0000'0000'0000;
inline constexpr u64 kCodeWindow = 0x00f4'0000'0000'0000;
inline constexpr u64 kWindowBytes = 1ull << 32;

struct Range {
  u64 base = 0;
  u64 bytes = 0;
  u64 distance = 0;  // what is added to a device address to get at its bytes, modulo 2^64
  bool writable = true;
  bool on_host = false;  // pinned memory

  bool holds(u64 address, u64 n) const {
    return address - base < bytes && n <= bytes - (address - base);
  }
  char *host(u64 address) const { return reinterpret_cast<char *>(address + distance); }
};

// The memory that kernels of one context may touch. Thread-safe.
class AddressSpace {
 public:
  virtual ~AddressSpace() = default;
  // The range that holds `address`, which may end before what is to be accessed does.
  virtual bool find(u64 address, Range &out) const = 0;
};

}  // namespace ckpt::softcuda::vm
