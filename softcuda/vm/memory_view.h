// SPDX-License-Identifier: Apache-2.0
//
// Memory as kernels see it. A device address lies in a window that the host cannot access. Its
// bytes are mapped elsewhere, and Range::distance leads from one to the other.
#pragma once

#include "common/base/bytes.h"

namespace ckpt::softcuda::vm {

// Where generic addresses of shared memory, local memory, parameters and functions begin. User
// space on x86-64 has 47-bit addresses, so none of these is an address of the host.
inline constexpr u64 kSharedWindow = 0x00f1'0000'0000'0000;
inline constexpr u64 kLocalWindow = 0x00f2'0000'0000'0000;
inline constexpr u64 kParamWindow = 0x00f3'0000'0000'0000;
inline constexpr u64 kCodeWindow = 0x00f4'0000'0000'0000;
inline constexpr u64 kWindowBytes = 1ull << 32;

struct Range {
  u64 base = 0;
  u64 bytes = 0;
  u64 distance = 0;  // host address minus device address, modulo 2^64
  bool writable = true;
  bool on_host = false;  // pinned or registered memory of the host

  bool holds(u64 address, u64 n) const {
    return address - base < bytes && n <= bytes - (address - base);
  }
  char *host(u64 address) const { return reinterpret_cast<char *>(address + distance); }
};

// The memory that kernels of one context may access. Thread-safe.
class AddressSpace {
 public:
  virtual ~AddressSpace() = default;
  // The range that holds `address`; it may end before the access does. False: none does.
  virtual bool find(u64 address, Range &out) const = 0;
};

}  // namespace ckpt::softcuda::vm
